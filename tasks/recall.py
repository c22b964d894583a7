"""Recall: what was paired with this key?

`recall` has one query, at the end: the associative recall of Zoology (Arora et al. 2023, arXiv 2312.04927) with a
single query; pairs load the memory, filler dilutes it. `mqar` is theirs, with a query for every pair. `induction` is
the induction head of Olsson et al. (2022) as H3's code has it (safari, synthetics.py).
"""

import numpy as np

from tasks.base import IGNORED, Batch, Task
from tasks.streams import stream

MOST_SORTED = 512
"""Among more numbers than these, different ones are drawn again and again rather than by giving each a place."""


class Recall(Task):
    """`pairs` keys, each followed by its value; filler; a marker; one of the keys. The label is its value.

    Keys of a sequence are different, values need not be. Tokens: 0 filler, 1 the marker, then the values, then the keys
    (all that the vocabulary has left). Chance is 1 / values; one of the values shown is right in 1 of `pairs`, and now
    and then where values are equal.
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
        batch = self.sequences(stream(0, "best constant"), self.JUDGED, length, vocabulary)
        shown = batch.tokens[:, 1] - self.FIRST_VALUE
        return "guessing a shown value", float((shown == batch.labels).mean())


class MultiRecall(Task):
    """MQAR, multi-query associative recall, with the generator of Zoology (Arora et al. 2023, arXiv 2312.04927):
    `pairs` different keys, each followed by its value, all different; then every key once more, its value the label.

    Token 0 is filler, the lower half of the vocabulary keys, the upper half values. After the pairs stand slots of two
    tokens, g = 0, 1, …; each key has one for its question, drawn without replacement with probability ∝ 1 / (g +
    1)^0.99: mostly soon after, seldom far away. The rest is filler.

    Chance is 1 / the number of values; one of the values shown is right in 1 of `pairs`.
    """

    name = "mqar"
    summary = "multi-query recall: the value of each key where the key stands again"
    readouts = ("every_token",)
    positions = "learned"
    causal = True
    vocabulary = 8192
    FILLER, POWER = 0, 0.01

    def __init__(self, pairs: int = 8):
        self.pairs = pairs
        self.own = {"pairs": pairs}

    def check(self, length: int, vocabulary: int) -> None:
        if length < 4 * self.pairs or length % 2:
            raise ValueError(
                f"length = {length}: {self.pairs} pairs and a slot of 2 tokens for each key's question need an even "
                f"length of at least {4 * self.pairs}"
            )
        if vocabulary // 2 - 1 < self.pairs:
            raise ValueError(
                f"vocabulary = {vocabulary}: half of it are values and the rest, but for the filler, keys: "
                f"{self.pairs} pairs need at least {2 * self.pairs + 2}"
            )

    def classes(self, length: int, vocabulary: int) -> int:
        return vocabulary

    def asked(self, length: int) -> int:
        return self.pairs

    def sequences(self, random: np.random.Generator, count: int, length: int, vocabulary: int) -> Batch:
        half, context = vocabulary // 2, 2 * self.pairs
        keys = different_of_many(random, count, self.pairs, half - 1) + 1
        values = different_of_many(random, count, self.pairs, vocabulary - half) + half
        slots = np.arange((length - context) // 2)
        # the order of exponential times with these rates is that of draws without replacement
        times = random.standard_exponential((count, len(slots)), dtype=np.float32) * (slots + 1) ** (1 - self.POWER)
        places = context + 2 * first_of(times, self.pairs)
        tokens = np.full((count, length), self.FILLER, np.int32)
        tokens[:, 0:context:2], tokens[:, 1:context:2] = keys, values
        labels = np.full((count, length), IGNORED, np.int64)
        np.put_along_axis(tokens, places, keys.astype(np.int32), axis=1)
        np.put_along_axis(labels, places, values, axis=1)
        return Batch(tokens, labels)

    def chance(self, length: int, vocabulary: int) -> float:
        return 1 / (vocabulary - vocabulary // 2)  # a value

    def baseline(self, length: int, vocabulary: int) -> tuple[str, float]:
        return "guessing a shown value", 1 / self.pairs


class Induction(Task):
    """Random tokens, one of them the marker; the sequence ends with the marker. The label is the token that followed
    the first one. Chance is 1 / (vocabulary − 1), and no constant answer is better."""

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
    return first_of(random.random((count, among), dtype=np.float32), chosen)


def first_of(times: np.ndarray, chosen: int) -> np.ndarray:
    """[count, chosen]: where the smallest of `times` [count, among] stand, in their order."""
    if chosen == times.shape[1]:
        return times.argsort(axis=1)
    smallest = np.argpartition(times, chosen, axis=1)[:, :chosen]
    order = np.take_along_axis(times, smallest, axis=1).argsort(axis=1)
    return np.take_along_axis(smallest, order, axis=1)


def different_of_many(random: np.random.Generator, count: int, chosen: int, among: int) -> np.ndarray:
    """The same, distributed alike, and fast also where `among` is large: rows in which numbers are equal are drawn
    anew."""
    if among <= max(MOST_SORTED, chosen * chosen):
        return different(random, count, chosen, among)
    drawn = random.integers(0, among, (count, chosen))
    rows = np.arange(count)
    while len(rows):
        some = np.sort(drawn[rows], axis=1)
        rows = rows[(some[:, 1:] == some[:, :-1]).any(axis=1)]
        drawn[rows] = random.integers(0, among, (len(rows), chosen))
    return drawn
