"""Recall: what was paired with this key? One query a sequence, its answer read at the last token.

`recall` is the associative recall of Zoology (Arora et al. 2023, arXiv 2312.04927) with a single query; pairs load the
memory, filler dilutes it. `induction` is the induction head of Olsson et al. (2022) as H3's code has it (safari,
synthetics.py).
"""

import numpy as np

from tasks.base import Batch, Task
from tasks.streams import stream


class Recall(Task):
    """`pairs` keys, each followed by its value; filler; a marker; one of the keys. The label is its value.

    Keys of a sequence are different, values need not be. Tokens: 0 filler, 1 the marker, then the values, then the keys
    (all that the vocabulary has left).
    """

    name = "recall"
    summary = "the value that was paired with the key at the end"
    readouts = ("last_token", "first_token", "mean")
    positions = "learned"
    vocabulary = 98
    FILLER, MARKER, FIRST_VALUE = 0, 1, 2

    def __init__(self, pairs: int = 8, values: int = 32):
        self.pairs, self.values = pairs, values
        self.own = {"pairs": pairs, "values": values}

    def check(self, length: int, vocabulary: int) -> None:
        if length < 2 * self.pairs + 2:
            raise ValueError(
                f"length = {length}: {self.pairs} pairs, the marker and the key at the end take {2 * self.pairs + 2}"
            )
        keys = vocabulary - self.values - 2
        if keys < self.pairs:
            raise ValueError(
                f"vocabulary = {vocabulary}: without filler, marker and {self.values} values it has {max(keys, 0)} "
                f"keys, and {self.pairs} pairs need as many; it needs at least {self.pairs + self.values + 2}"
            )

    def length_of(self, filler: int) -> int:
        """The length of sequences with so much filler."""
        return 2 * self.pairs + filler + 2

    def classes(self, length: int, vocabulary: int) -> int:
        return self.values

    def sequences(self, random: np.random.Generator, count: int, length: int, vocabulary: int) -> Batch:
        keys = vocabulary - self.values - 2
        chosen = different(random, count, self.pairs, keys)
        answers = random.integers(0, self.values, (count, self.pairs))
        asked = random.integers(0, self.pairs, count)
        rows = np.arange(count)
        tokens = np.full((count, length), self.FILLER, np.int32)
        tokens[:, 0 : 2 * self.pairs : 2] = chosen + self.values + 2
        tokens[:, 1 : 2 * self.pairs : 2] = answers + self.FIRST_VALUE
        tokens[:, -2] = self.MARKER
        tokens[:, -1] = chosen[rows, asked] + self.values + 2
        return Batch(tokens, answers[rows, asked].astype(np.int64))

    def baseline(self, length: int, vocabulary: int) -> tuple[str, float]:
        batch = self.sequences(stream(0, "best constant"), 10_000, length, vocabulary)
        shown = batch.tokens[:, 1] - self.FIRST_VALUE
        return "guessing a shown value", float((shown == batch.labels).mean())


class Induction(Task):
    """Random tokens, one of them the marker; the sequence ends with the marker. The label is the token that followed
    the first one."""

    name = "induction"
    summary = "the token that followed the marker, which ends the sequence"
    readouts = ("last_token", "first_token", "mean")
    positions = "learned"
    vocabulary = 20

    def check(self, length: int, vocabulary: int) -> None:
        super().check(length, vocabulary)
        if length < 4:
            raise ValueError(f"length = {length}: {self.name} needs a marker, what follows it, and the marker again: 4")
        if vocabulary < 3:
            raise ValueError(f"vocabulary = {vocabulary}: {self.name} needs a marker and 2 other tokens")

    def classes(self, length: int, vocabulary: int) -> int:
        return vocabulary - 1

    def sequences(self, random: np.random.Generator, count: int, length: int, vocabulary: int) -> Batch:
        marker, rows = vocabulary - 1, np.arange(count)
        tokens = random.integers(0, marker, (count, length), dtype=np.int32)
        places = random.integers(0, length - 2, count)
        tokens[rows, places] = marker
        tokens[:, -1] = marker
        return Batch(tokens, tokens[rows, places + 1].astype(np.int64))


def different(random: np.random.Generator, count: int, chosen: int, among: int) -> np.ndarray:
    """[count, chosen] different numbers below `among`, in random order; every order of every choice as likely."""
    if chosen == among:
        return random.permuted(np.broadcast_to(np.arange(among), (count, among)), axis=1)
    keys = random.random((count, among), dtype=np.float32)
    smallest = np.argpartition(keys, chosen, axis=1)[:, :chosen]
    order = np.take_along_axis(keys, smallest, axis=1).argsort(axis=1)
    return np.take_along_axis(smallest, order, axis=1)
