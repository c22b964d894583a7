"""ListOps against a plain evaluation of its expressions, and against the Long Range Arena's own way to draw them."""

import random
import statistics
from collections import Counter

import numpy as np
import pytest

from tasks import TASKS, stream
from tasks.listops import END, FIRST_DIGIT, FIRST_OPERATOR, OPERATORS, PADDING

RULES = {
    "MIN": min,
    "MAX": max,
    "MED": lambda values: int(statistics.median(values)),
    "SM": lambda values: sum(values) % 10,
}


def draw(count: int, length: int, seed: int = 5):
    return TASKS["listops"].sequences(stream(seed, "test"), count, length, 16)


def evaluated(tokens: list[int]) -> tuple[int, int, int, list[int]]:
    """Of the expression that starts the list: value, tokens, nodes on its longest way down, its operators' numbers of
    arguments."""
    if FIRST_DIGIT <= tokens[0] < FIRST_OPERATOR:
        return tokens[0] - FIRST_DIGIT, 1, 1, []
    rule, place, values, depths, arguments = RULES[OPERATORS[tokens[0] - FIRST_OPERATOR]], 1, [], [], []
    while tokens[place] != END:
        value, size, depth, inner = evaluated(tokens[place:])
        values.append(value)
        depths.append(depth)
        arguments += inner
        place += size
    return rule(values), place + 1, 1 + max(depths), [len(values), *arguments]


@pytest.mark.parametrize(("count", "length"), [(400, 8), (400, 64), (30, 600)])
def test_the_label_is_the_value_of_the_expression_that_comes_before_the_padding(count, length):
    batch = draw(count, length)
    assert batch.tokens.shape == (count, length) and batch.tokens.dtype == np.int32 and batch.labels.dtype == np.int64
    for tokens, label in zip(batch.tokens.tolist(), batch.labels.tolist(), strict=True):
        value, size, depth, arguments = evaluated(tokens)
        assert label == value and set(tokens[size:]) <= {PADDING} and PADDING not in tokens[:size]
        assert length // 4 < size < length and depth <= 10 and min(arguments) >= 2 and max(arguments) <= 10


def arena(rng: random.Random, depth: int = 1) -> list[int]:
    """A node as listops.py draws it."""
    if depth == 10 or rng.random() > 0.25:
        return [FIRST_DIGIT + rng.randrange(10)]
    inner = [token for _ in range(rng.randint(2, 10)) for token in arena(rng, depth + 1)]
    return [FIRST_OPERATOR + rng.randrange(4), *inner, END]


def test_expressions_are_distributed_as_the_arenas():
    rng, theirs = random.Random(1), []
    while len(theirs) < 3000:
        tokens = arena(rng)
        if 16 < len(tokens) < 64:
            theirs.append(tokens)
    ours = [[token for token in tokens if token != PADDING] for tokens in draw(3000, 64).tokens.tolist()]
    for measure, spread in (
        (len, 13.0),  # deviations of one expression's figures, about
        (lambda tokens: evaluated(tokens)[2], 1.1),
        (lambda tokens: tokens.count(END), 3.5),
        (lambda tokens: evaluated(tokens)[0], 3.2),
        (lambda tokens: evaluated(tokens)[0] == 0, 0.37),
        (lambda tokens: tokens[0], 1.2),
    ):
        one, other = (statistics.fmean(map(measure, each)) for each in (ours, theirs))
        assert abs(one - other) < 4 * spread * (2 / 3000) ** 0.5
    operators = Counter(token for tokens in ours for token in tokens if FIRST_OPERATOR <= token < END)
    assert min(operators.values()) > 0.9 * max(operators.values())


def test_zero_is_the_commonest_value_of_long_expressions():
    """0.170 in 3,000 expressions of more than 500 and fewer than 2,000 tokens."""
    name, accuracy = TASKS["listops"].baseline(2000, 16)
    assert name == "the best constant answer" and accuracy == pytest.approx(0.17, abs=0.025)
    assert np.bincount(draw(1000, 2000).labels).argmax() == 0


def test_a_stream_gives_the_same_expressions_and_another_gives_others():
    one, again, other = draw(50, 64), draw(50, 64), draw(50, 64, seed=6)
    assert np.array_equal(one.tokens, again.tokens) and np.array_equal(one.labels, again.labels)
    assert not np.array_equal(one.tokens, other.tokens)
    assert len({tuple(tokens) for tokens in draw(500, 64).tokens.tolist()}) > 490
