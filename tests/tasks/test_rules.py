"""Classification, recall and brackets: labels against plain restatements, what is drawn, and what is refused."""

from collections import Counter

import numpy as np
import pytest

from tasks import IGNORED, TASKS, stream
from tasks.dyck import well_formed, words
from tasks.recall import different, different_of_many


def dyck_label(tokens: list[int]) -> int:
    stack = []
    for token in tokens:
        if token % 2 == 0:
            stack.append(token)
        elif not stack or stack.pop() != token - 1:
            return 0
    return int(not stack)


def recall_label(tokens: list[int], pairs: int) -> int:
    return dict(zip(tokens[0 : 2 * pairs : 2], tokens[1 : 2 * pairs : 2]))[tokens[-1]] - 2


def induction_label(tokens: list[int]) -> int:
    return tokens[tokens.index(tokens[-1]) + 1]


RULES = {
    "first": lambda tokens: tokens[0],
    "majority": lambda tokens: int(sum(tokens) > len(tokens) / 2),
    "parity": lambda tokens: sum(tokens) % 2,
    "induction": induction_label,
    "dyck": dyck_label,
}


def draw(name: str, count: int, length: int, vocabulary: int | None = None, **own):
    task = TASKS[name].having(**own)
    task.check(length, vocabulary or task.vocabulary)
    return task.sequences(stream(5, "test"), count, length, vocabulary or task.vocabulary)


@pytest.mark.parametrize("length", [4, 9, 10, 64])
@pytest.mark.parametrize("name", RULES)
def test_labels_follow_the_rule(name, length):
    if name == "dyck" and length % 2:
        return
    batch = draw(name, 400, length)
    assert batch.tokens.shape == (400, length) and batch.tokens.dtype == np.int32 and batch.labels.dtype == np.int64
    assert batch.labels.tolist() == [RULES[name](tokens) for tokens in batch.tokens.tolist()]
    assert batch.labels.min() >= 0 and batch.labels.max() < TASKS[name].classes(length, TASKS[name].vocabulary)


@pytest.mark.parametrize(("pairs", "values", "filler"), [(1, 2, 0), (3, 5, 7), (8, 32, 40), (64, 32, 0)])
def test_recall_asks_for_the_value_of_a_key_that_was_shown_once(pairs, values, filler):
    task = TASKS["recall"].having(pairs=pairs, values=values)
    length = task.length_of(filler)
    batch = draw("recall", 300, length, pairs=pairs, values=values)
    for tokens, label in zip(batch.tokens.tolist(), batch.labels.tolist(), strict=True):
        keys = tokens[0 : 2 * pairs : 2]
        assert len(set(keys)) == pairs and min(keys) >= 2 + values and tokens[-2] == 1
        assert all(2 <= value < 2 + values for value in tokens[1 : 2 * pairs : 2])
        assert tokens[2 * pairs : -2] == [0] * filler
        assert label == recall_label(tokens, pairs)


@pytest.mark.parametrize(("pairs", "length", "vocabulary"), [(1, 4, 4), (4, 64, 8192), (8, 32, 18), (16, 256, 101)])
def test_mqar_asks_for_every_key_once_more_and_for_nothing_else(pairs, length, vocabulary):
    batch = draw("mqar", 300, length, vocabulary, pairs=pairs)
    half, context = vocabulary // 2, 2 * pairs
    assert batch.labels.shape == batch.tokens.shape == (300, length)
    for tokens, labels in zip(batch.tokens.tolist(), batch.labels.tolist(), strict=True):
        keys, values = tokens[0:context:2], tokens[1:context:2]
        assert len(set(keys)) == len(set(values)) == pairs
        assert all(1 <= key < half for key in keys) and all(half <= value < vocabulary for value in values)
        asked = [place for place in range(length) if labels[place] != IGNORED]
        assert all(place >= context and place % 2 == 0 for place in asked)
        assert sorted(tokens[place] for place in asked) == sorted(keys)
        assert all(labels[place] == dict(zip(keys, values))[tokens[place]] for place in asked)
        assert all(tokens[place] == 0 for place in range(context, length) if place not in asked)


def test_mqar_asks_as_soon_as_zoologys_generator_does():
    """The slot of a pair's question, against numpy's draws without replacement as the original makes them."""
    batch = draw("mqar", 10_000, 32, 64, pairs=4)
    share = (np.arange(12) + 1.0) ** (0.01 - 1)
    share /= share.sum()
    random = np.random.default_rng(0)
    expected = [random.choice(12, 4, replace=False, p=share) for _ in range(10_000)]
    for pair in (0, 3):
        theirs = np.bincount([slots[pair] for slots in expected], minlength=12) / 10_000
        where = (
            np.argwhere((batch.tokens == batch.tokens[:, 2 * pair, None]) & (batch.labels != IGNORED))[:, 1] // 2 - 4
        )
        assert np.abs(np.bincount(where, minlength=12) / 10_000 - theirs).max() < 0.02


def test_guessing_a_shown_value_is_recalls_trivial_answer():
    name, accuracy = TASKS["recall"].having(pairs=4, values=32).baseline(20, 98)
    assert name == "guessing a shown value" and accuracy == pytest.approx(1 / 4 + 3 / 4 / 32, abs=0.02)
    assert TASKS["mqar"].having(pairs=4).baseline(64, 8192) == ("guessing a shown value", 1 / 4)
    assert TASKS["mqar"].chance(64, 8192) == 1 / 4096 and TASKS["parity"].chance(64, 2) == 1 / 2
    name, accuracy = TASKS["local_global"].baseline(64, 100)
    assert name == "one's own position" and accuracy == pytest.approx(0.4744 + 0.5256 / 64, abs=0.02)
    name, accuracy = TASKS["first"].baseline(20, 16)
    assert name == "the best constant answer" and accuracy == pytest.approx(1 / 16, abs=0.01)


def test_different_numbers_are_any_of_them_in_any_order():
    found = different(stream(0, "test"), 60_000, 2, 4)
    counts = Counter(map(tuple, found.tolist()))
    assert len(counts) == 12 and all(abs(count / 5000 - 1) < 0.08 for count in counts.values())
    assert sorted(different(stream(0, "test"), 1, 5, 5)[0]) == [0, 1, 2, 3, 4]
    many = different_of_many(stream(0, "test"), 50_000, 8, 600)  # drawn again where two are equal
    assert all(len(set(row)) == 8 for row in many.tolist())
    counts = np.stack([np.bincount(column, minlength=600) for column in many.T])
    assert abs(counts - 50_000 / 600).max() < 6 * (50_000 / 600) ** 0.5


def test_dyck_words_are_uniform_among_those_of_their_length():
    found = Counter(map(tuple, words(stream(1, "test"), 50_000, 8, 1).tolist()))
    assert len(found) == 14  # the fourth Catalan number
    assert all(abs(count / (50_000 / 14) - 1) < 0.1 for count in found.values())
    two = words(stream(1, "test"), 20_000, 4, 2)
    assert len(set(map(tuple, two.tolist()))) == 8 and well_formed(two).all()


def test_half_of_dyck_is_well_formed_and_counting_does_not_tell_which():
    batch = draw("dyck", 20_000, 32)
    assert batch.labels.mean() == pytest.approx(0.5, abs=0.02)
    opens = (batch.tokens % 2 == 0).sum(axis=1)
    assert (opens == 16).all()


@pytest.mark.parametrize("name", ["majority", "parity", "induction", "first"])
def test_classes_are_as_likely_as_they_should_be(name):
    labels = draw(name, 40_000, 33).labels
    counts = np.bincount(labels)
    assert counts.max() / counts.min() < 1.15


def test_induction_has_its_marker_twice():
    batch = draw("induction", 500, 12)
    assert ((batch.tokens == 19).sum(axis=1) == 2).all() and (batch.tokens[:, -1] == 19).all()


@pytest.mark.parametrize(
    ("name", "length", "vocabulary", "own", "says"),
    [
        ("dyck", 7, 4, {}, "length = 7: brackets come in pairs"),
        ("dyck", 8, 3, {}, "vocabulary = 3: dyck needs two kinds"),
        ("parity", 8, 3, {}, "the tokens of parity are bits"),
        ("majority", 8, 10, {}, "the tokens of majority are bits"),
        ("recall", 17, 98, {}, "8 pairs, the marker and the key at the end take 18"),
        ("recall", 100, 41, {}, "it has 7 keys, and 8 pairs need as many; it needs at least 42"),
        ("recall", 100, 20, {"pairs": 4}, "it has 0 keys, and 4 pairs"),
        (
            "mqar",
            30,
            64,
            {},
            "8 pairs and a slot of 2 tokens for each key's question need an even length of at least 32",
        ),
        ("mqar", 33, 64, {}, "need an even length"),
        ("mqar", 64, 16, {}, "8 pairs need at least 18"),
        ("listops", 7, 16, {}, "length = 7"),
        ("listops", 64, 20, {}, "the tokens of listops are 16"),
        ("induction", 3, 20, {}, "length = 3"),
        ("induction", 8, 2, {}, "a marker and 2 other tokens"),
    ],
)
def test_impossible_sizes_are_refused_with_the_reason(name, length, vocabulary, own, says):
    with pytest.raises(ValueError, match=says):
        TASKS[name].having(**own).check(length, vocabulary)
