"""Pattern finding: the most frequent token (Richter & Wattenhofer, arXiv 2005.09561, section on pattern finding)."""

import numpy as np

from tasks.base import Batch, Task


class Mode(Task):
    """The most frequent token, the smallest of equals. No positions: the answer does not depend on the order.

    Chance is 1 / vocabulary; the smallest tokens are a little likelier: 0 is right in 12 of 100 of 10 tokens.
    """

    name = "mode"
    summary = "pattern finding: the most frequent token"
    readouts = ("first_token",)
    vocabulary = 10

    def eval_length(self, length: int) -> int:
        return 2 * length

    def classes(self, length: int, vocabulary: int) -> int:
        return vocabulary

    def sequences(self, random: np.random.Generator, count: int, length: int, vocabulary: int) -> Batch:
        tokens = random.integers(0, vocabulary, (count, length), dtype=np.int32)
        bins = tokens + vocabulary * np.arange(count)[:, None]
        counts = np.bincount(bins.ravel(), minlength=count * vocabulary).reshape(count, vocabulary)
        return Batch(tokens, counts.argmax(axis=1))
