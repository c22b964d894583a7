"""Label rules against slow, plain restatements; mixes of cases; streams."""

import numpy as np
import pytest

from tasks import TASKS, stream
from tasks.cases import uniform_with


def cases_label(tokens: list[int]) -> int:
    if 64 in tokens:
        return tokens.index(min(tokens))
    if 50 in tokens:
        return 0
    return tokens.index(max(tokens))


def local_global_label(tokens: list[int]) -> list[int]:
    if 64 in tokens:
        return list(range(len(tokens)))
    return [tokens.index(min(tokens))] * len(tokens)


def mode_label(tokens: list[int]) -> int:
    return min(set(tokens), key=lambda token: (-tokens.count(token), token))


RULES = {"cases": cases_label, "local_global": local_global_label, "mode": mode_label}


@pytest.mark.parametrize("length", [2, 7, 40, 128])
@pytest.mark.parametrize(
    ("name", "vocabulary"), [("cases", 65), ("cases", 100), ("local_global", 80), ("mode", 2), ("mode", 30)]
)
def test_labels_follow_the_rule(name, vocabulary, length):
    batch = TASKS[name].sequences(stream(3, "test"), 300, length, vocabulary)
    assert batch.tokens.shape == (300, length)
    assert batch.tokens.min() >= 0 and batch.tokens.max() < vocabulary
    assert batch.labels.tolist() == [RULES[name](tokens) for tokens in batch.tokens.tolist()]


@pytest.mark.parametrize("name", ["cases", "local_global"])
@pytest.mark.parametrize("length", [4, 64])
def test_every_case_has_sequences_of_that_case_alone(name, length):
    task = TASKS[name]
    for case in task.cases:
        batch = task.case_sequences(stream(0, "test"), case, 200, length, 100)
        marked = (batch.tokens == 64).any(axis=1)
        second = (batch.tokens == 50).any(axis=1)
        expected = {
            "argmin": marked,
            "first": ~marked & second,
            "argmax": ~marked & ~second,
            "local": marked,
            "global": ~marked,
        }[case]
        assert expected.all()
        assert batch.labels.tolist() == [RULES[name](tokens) for tokens in batch.tokens.tolist()]


def test_a_case_is_distributed_as_the_task_given_the_case():
    rejected = TASKS["cases"].sequences(stream(0, "a"), 200_000, 6, 70).tokens
    rejected = rejected[(rejected == 64).any(axis=1)]
    drawn = uniform_with(stream(0, "b"), 100_000, 6, 70, 64)
    for statistic in (
        lambda tokens: (tokens == 64).mean(axis=0),  # where the marker stands
        lambda tokens: np.bincount((tokens == 64).sum(axis=1), minlength=4)[:4] / len(tokens),  # how often
        lambda tokens: np.array([tokens[:, 0].mean() / 70, tokens[:, 5].mean() / 70]),
    ):
        assert statistic(drawn) == pytest.approx(statistic(rejected), abs=0.015)


def test_the_natural_mix_of_cases_is_the_papers():
    tokens = TASKS["cases"].sequences(stream(0, "test"), 40_000, 128, 100).tokens
    marked, second = (tokens == 64).any(axis=1), (tokens == 50).any(axis=1)
    mix = [marked.mean(), (~marked & second).mean(), (~marked & ~second).mean()]
    assert mix == pytest.approx([0.7237, 0.2009, 0.0753], abs=0.01)


@pytest.mark.parametrize(
    ("bias", "expected"),
    [(-3, 0.090), (-2, 0.181), (-1, 0.362), (1, 0.862), (2, 0.931), (3, 0.966), (4, 0.983)],
)
def test_case_bias_moves_the_share_of_marked_sequences_as_in_the_paper(bias, expected):
    task = TASKS["cases"]
    batch = task.sequences(stream(0, "test"), 20_000, 128, 100)
    biased = task.biased(stream(0, "bias"), batch, bias, 100)
    assert (biased.tokens == 64).any(axis=1).mean() == pytest.approx(expected, abs=0.012)
    assert biased.labels[:500].tolist() == [cases_label(tokens) for tokens in biased.tokens[:500].tolist()]


def test_mode_ties_are_as_common_as_they_should_be():
    tokens = TASKS["mode"].sequences(stream(0, "test"), 20_000, 128, 10).tokens
    counts = np.sort(np.stack([np.bincount(row, minlength=10) for row in tokens]), axis=1)
    assert (counts[:, -1] == counts[:, -2]).mean() == pytest.approx(0.176, abs=0.01)


@pytest.mark.parametrize(("name", "length"), [("cases", 64), ("local_global", 64), ("mode", 256)])
def test_the_evaluation_length_is_the_papers(name, length):
    assert TASKS[name].eval_length(128) == length


@pytest.mark.parametrize(
    ("name", "length", "vocabulary", "says"),
    [
        ("cases", 128, 50, "no token 64"),
        ("local_global", 128, 64, "no token 64"),
        ("cases", 1, 100, "at least 2 tokens"),
        ("mode", 16, 1, "at least 2 different tokens"),
    ],
)
def test_impossible_sizes_are_refused_with_the_reason(name, length, vocabulary, says):
    with pytest.raises(ValueError, match=says):
        TASKS[name].check(length, vocabulary)


def test_a_stream_is_the_same_every_time_and_another_for_every_seed_purpose_and_epoch():
    draws = {
        key: stream(*key).integers(0, 2**32, 8).tobytes()
        for key in [
            (0, "train", 0),
            (1, "train", 0),
            (0, "eval", 0),
            (0, "train", 1),
            *(
                (2**power - back, purpose, 0)
                for power in (53, 63)
                for back in (0, 1, 2)
                for purpose in ("train", "eval")
            ),
        ]
    }
    assert len(set(draws.values())) == len(draws)
    assert draws[0, "train", 0] == stream(0, "train", 0).integers(0, 2**32, 8).tobytes()


def test_streams_do_not_change_between_versions():
    assert stream(7, "train", 3).integers(0, 100, 8, dtype=np.int32).tolist() == GOLDEN


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="negative"):
        stream(-1, "train")


GOLDEN = [66, 15, 24, 55, 19, 13, 20, 21]
"""Law 2 for ever: numbers that were drawn once and must be drawn again by every later version."""
