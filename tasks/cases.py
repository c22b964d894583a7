"""Case distinction and local/global: what a token must answer depends on whether a marker stands anywhere.

Richter & Wattenhofer, "Normalized Attention Without Probability Cage" (arXiv 2005.09561), and its code's
task_generators.
"""

import numpy as np

from tasks.base import Batch, Task
from tasks.streams import stream

MARKER = 64
"""The token that decides: with it the answer is the argmin (cases) or one's own position (local_global)."""

SECOND_MARKER = 50
"""The token that decides where there is no MARKER: with it the answer of `cases` is the first position."""


def uniform_without(random: np.random.Generator, shape: tuple[int, ...], vocabulary: int, *excluded: int) -> np.ndarray:
    """Tokens uniform over the vocabulary without the `excluded` ones; int32."""
    tokens = random.integers(0, vocabulary - len(excluded), shape, dtype=np.int32)
    for token in sorted(excluded):
        tokens += tokens >= token
    return tokens


def uniform_with(
    random: np.random.Generator, count: int, length: int, vocabulary: int, required: int, *excluded: int
) -> np.ndarray:
    """[count, length] tokens, uniform without `excluded`, given that `required` is among them at least once.

    Drawn exactly and without rejection, so that it costs the same at any length: first the position of the first
    `required` token (a truncated geometric distribution), then what may stand before it, then what may stand after.
    """
    p = 1 / (vocabulary - len(excluded))
    u = random.random(count)
    first = np.floor(np.log1p(u * np.expm1(length * np.log1p(-p))) / np.log1p(-p)).astype(np.int64)
    first = np.minimum(first, length - 1).reshape(count, 1)  # u can round up to the distribution's very end
    before = uniform_without(random, (count, length), vocabulary, required, *excluded)
    after = uniform_without(random, (count, length), vocabulary, *excluded)
    positions = np.arange(length)
    return np.where(positions < first, before, np.where(positions == first, np.int32(required), after))


def moved_by_bias(random: np.random.Generator, tokens: np.ndarray, case_bias: int, vocabulary: int) -> np.ndarray:
    """`tokens` with MARKER made more common (`case_bias` > 0) or rarer (< 0).

    `|case_bias|` times: each sequence without a MARKER gets one at a random position with probability ½; for a negative
    bias, each sequence with MARKERs has all of them redrawn among the other tokens with probability ½.
    """
    tokens = tokens.copy()
    count, length = tokens.shape
    for _ in range(abs(case_bias)):
        chosen = random.random(count) < 0.5
        marked = (tokens == MARKER).any(axis=1)
        if case_bias > 0:
            positions = random.integers(0, length, (count,))
            rows = np.flatnonzero(chosen & ~marked)
            tokens[rows, positions[rows]] = MARKER
        else:
            others = uniform_without(random, tokens.shape, vocabulary, MARKER)
            tokens = np.where((chosen & marked)[:, None] & (tokens == MARKER), others, tokens)
    return tokens


class _MarkedTask(Task):
    """What `cases` and `local_global` share: uniform tokens, markers, half the length for evaluation, a bias."""

    positions = "learned"
    vocabulary = 100
    has_bias = True
    answers_position = True

    def check(self, length: int, vocabulary: int) -> None:
        super().check(length, vocabulary)
        if vocabulary <= MARKER:
            raise ValueError(
                f"vocabulary = {vocabulary}: {self.name} asks whether token {MARKER} is present, and a vocabulary of "
                f"{vocabulary} has no token {MARKER}; it needs at least {MARKER + 1}"
            )

    def eval_length(self, length: int) -> int:
        return length // 2

    def classes(self, length: int, vocabulary: int) -> int:
        return length

    def labels(self, tokens: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def case_tokens(self, random, case: str, count: int, length: int, vocabulary: int) -> np.ndarray:
        raise NotImplementedError

    def sequences(self, random: np.random.Generator, count: int, length: int, vocabulary: int) -> Batch:
        tokens = random.integers(0, vocabulary, (count, length), dtype=np.int32)
        return Batch(tokens, self.labels(tokens))

    def biased(self, random: np.random.Generator, batch: Batch, case_bias: int, vocabulary: int) -> Batch:
        tokens = moved_by_bias(random, batch.tokens, case_bias, vocabulary)
        return Batch(tokens, self.labels(tokens))

    def case_sequences(self, random: np.random.Generator, case: str, count: int, length: int, vocabulary: int) -> Batch:
        tokens = self.case_tokens(random, case, count, length, vocabulary)
        return Batch(tokens, self.labels(tokens))


class Cases(_MarkedTask):
    """Argmin-first-argmax. 64 present: the position of the smallest token; else 50 present: position 0; else the
    position of the largest token. The first of equals. One label a sequence.

    Chance is 1 / length; always the first position is right in 21 of 100 at length 128, in 26 at 64.
    """

    name = "cases"
    summary = "case distinction: position of the smallest, the first or the largest token, by the markers present"
    readouts = ("pointer", "first_token")
    cases = ("argmin", "first", "argmax")

    def labels(self, tokens: np.ndarray) -> np.ndarray:
        marked = (tokens == MARKER).any(axis=1)
        second = (tokens == SECOND_MARKER).any(axis=1)
        return np.where(marked, tokens.argmin(axis=1), np.where(second, 0, tokens.argmax(axis=1)))

    def case_tokens(self, random, case: str, count: int, length: int, vocabulary: int) -> np.ndarray:
        if case == "argmin":
            return uniform_with(random, count, length, vocabulary, MARKER)
        if case == "first":
            return uniform_with(random, count, length, vocabulary, SECOND_MARKER, MARKER)
        return uniform_without(random, (count, length), vocabulary, MARKER, SECOND_MARKER)


class LocalGlobal(_MarkedTask):
    """64 present: every token answers its own position; else every token answers the position of the smallest token
    (the first of equals). One label a token.

    Chance is 1 / length; always one's own position is right in 72 of 100 at length 128, in 48 at 64.
    """

    name = "local_global"
    summary = "every token answers its own position, or that of the smallest token, by whether a marker is present"
    readouts = ("every_token",)
    cases = ("local", "global")

    def labels(self, tokens: np.ndarray) -> np.ndarray:
        marked = (tokens == MARKER).any(axis=1, keepdims=True)
        return np.where(marked, np.arange(tokens.shape[1]), tokens.argmin(axis=1, keepdims=True))

    def baseline(self, length: int, vocabulary: int) -> tuple[str, float]:
        labels = self.sequences(stream(0, "best constant"), self.JUDGED, length, vocabulary).labels
        return "one's own position", float((labels == np.arange(length)).mean())

    def case_tokens(self, random, case: str, count: int, length: int, vocabulary: int) -> np.ndarray:
        if case == "local":
            return uniform_with(random, count, length, vocabulary, MARKER)
        return uniform_without(random, (count, length), vocabulary, MARKER)
