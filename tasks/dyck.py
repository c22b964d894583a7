"""Well-formed brackets: is this sequence a Dyck word?

Positives are Dyck words drawn uniformly among those of their length, with brackets of random kinds; negatives differ
from one by a swap or a bracket of another kind, so that counting alone does not tell them. Suzgun et al., "LSTM
Networks Can Perform Dynamic Counting" (2019); the negatives are ours.
"""

import numpy as np

from tasks.base import Batch, Task


class Dyck(Task):
    """1 where every bracket is closed by one of its kind, in order. Half of the sequences are, about.

    Chance is 1 / 2, and no constant answer is better. Token 2k opens kind k and 2k + 1 closes it: a vocabulary of 4 has
    two kinds.
    """

    name = "dyck"
    summary = "whether brackets of some kinds are well nested"
    readouts = ("last_token", "first_token", "mean")
    positions = "learned"
    vocabulary = 4
    JUDGED = 2_000

    def check(self, length: int, vocabulary: int) -> None:
        super().check(length, vocabulary)
        if length % 2:
            raise ValueError(f"length = {length}: brackets come in pairs, so {self.name} needs an even length")
        if vocabulary % 2 or vocabulary < 4:
            raise ValueError(f"vocabulary = {vocabulary}: {self.name} needs two kinds of bracket or more: 4, 6, …")

    def classes(self, length: int, vocabulary: int) -> int:
        return 2

    def sequences(self, random: np.random.Generator, count: int, length: int, vocabulary: int) -> Batch:
        tokens = words(random, count, length, vocabulary // 2)
        rows = np.arange(count)
        swap, kind = random.random((2, count)) < np.array([[1 / 4], [1 / 3]])
        kind &= ~swap  # a quarter each: half of all stays as it is
        one, other = random.integers(0, length, (2, count))
        first, second = tokens[rows, one], tokens[rows, other]
        tokens[rows, one] = np.where(swap, second, first)
        tokens[rows, other] = np.where(swap, first, second)
        broken = kind | (swap & well_formed(tokens))  # a swap may change nothing
        closing = np.where(tokens % 2 == 1, random.random(tokens.shape, dtype=np.float32), -1.0).argmax(axis=1)
        shift = 2 * random.integers(1, vocabulary // 2, count)
        changed = (tokens[rows, closing] + np.where(broken, shift, 0)) % vocabulary
        tokens[rows, closing] = changed
        return Batch(tokens, well_formed(tokens).astype(np.int64))


def words(random: np.random.Generator, count: int, length: int, kinds: int) -> np.ndarray:
    """[count, length] Dyck words, uniform among those of this length, int32.

    A step at a time for all words: from height h with r steps left, of the paths that end at 0 without going below it
    the share (h + 2)(r − h) / (2 r (h + 1)) goes up (the ballot theorem).
    """
    tokens = np.empty((count, length), np.int32)
    stack = np.zeros((count, length // 2 + 1), np.int32)
    height, rows = np.zeros(count, np.int64), np.arange(count)
    draws = random.random((length, count), dtype=np.float32)
    opened = random.integers(0, kinds, (length, count), dtype=np.int32)
    for place in range(length):
        left = length - place
        up = draws[place] * (2 * left * (height + 1)) < (height + 2) * (left - height)
        kind = np.where(up, opened[place], stack[rows, np.maximum(height - 1, 0)])
        stack[rows[up], height[up]] = kind[up]
        height += np.where(up, 1, -1)
        tokens[:, place] = 2 * kind + ~up
    return tokens


def well_formed(tokens: np.ndarray) -> np.ndarray:
    """Which sequences [count, length] are Dyck words; a step at a time for all of them."""
    count, length = tokens.shape
    stack = np.full((count, length + 2), -1, np.int32)
    height, rows = np.ones(count, np.int64), np.arange(count)
    good = np.ones(count, bool)
    for place in range(length):
        kind, closes = tokens[:, place] // 2, tokens[:, place] % 2 == 1
        good &= ~closes | (stack[rows, height - 1] == kind)
        height += np.where(closes, -1, 1)
        np.maximum(height, 1, out=height)
        stack[rows, height - 1] = np.where(closes, stack[rows, height - 1], kind)
    return good & (height == 1)
