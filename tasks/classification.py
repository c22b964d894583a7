"""Sequence classification: one label a sequence, read where the answer does not stand.

`first` isolates dilution: one token among many matters. `majority` and `parity` count; no order is needed. Hahn,
"Theoretical Limitations of Self-Attention" (2019, arXiv 1906.06755); Chiang & Cholak, "Overcoming a Theoretical
Limitation of Self-Attention" (2022).
"""

import numpy as np

from tasks.base import Batch, Task

ANYWHERE = ("first_token", "last_token", "mean")


class First(Task):
    """The class of the first token; the rest is noise. Read at the last token, or at the mean: where the answer does
    not stand already. Chance is 1 / vocabulary, and no constant answer is better."""

    name = "first"
    summary = "the first token, read at the last"
    readouts = ("last_token", "mean")
    positions = "learned"
    vocabulary = 16

    def classes(self, length: int, vocabulary: int) -> int:
        return vocabulary

    def sequences(self, random: np.random.Generator, count: int, length: int, vocabulary: int) -> Batch:
        tokens = random.integers(0, vocabulary, (count, length), dtype=np.int32)
        return Batch(tokens, tokens[:, 0].astype(np.int64))


class _Bits(Task):
    """Uniform bits and a label that does not depend on their order."""

    readouts = ANYWHERE
    vocabulary = 2

    def check(self, length: int, vocabulary: int) -> None:
        super().check(length, vocabulary)
        if vocabulary != 2:
            raise ValueError(f"vocabulary = {vocabulary}: the tokens of {self.name} are bits, so it is 2")

    def classes(self, length: int, vocabulary: int) -> int:
        return 2

    def label(self, ones: np.ndarray, length: int) -> np.ndarray:
        """The label of sequences with so many ones."""
        raise NotImplementedError

    def sequences(self, random: np.random.Generator, count: int, length: int, vocabulary: int) -> Batch:
        packed = random.integers(0, 256, (count, -(-length // 8)), dtype=np.uint8)
        tokens = np.unpackbits(packed, axis=1, count=length).astype(np.int32)
        return Batch(tokens, self.label(tokens.sum(axis=1), length).astype(np.int64))


class Majority(_Bits):
    """1 where more than half of the bits are ones. Chance is 1 / 2. With an even length ties are 0, so that always 0 is
    right in 54 of 100 at length 128."""

    name = "majority"
    summary = "whether more than half of the bits are ones"

    def label(self, ones: np.ndarray, length: int) -> np.ndarray:
        return 2 * ones > length


class Parity(_Bits):
    """1 where the number of ones is odd. Any single bit flips it: at depth 1 everything stays at chance, and what does
    not leaks. Chance is 1 / 2, and no constant answer is better."""

    name = "parity"
    summary = "whether the number of ones is odd"

    def label(self, ones: np.ndarray, length: int) -> np.ndarray:
        return ones % 2
