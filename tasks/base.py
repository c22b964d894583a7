"""What a task is: a generator of labelled sequences, and how its answer is read from a network."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tasks.streams import stream

READOUTS = {
    "pointer": "one score a token; the answer is the position with the highest",
    "first_token": "class scores read at the first token",
    "last_token": "class scores read at the last token",
    "mean": "class scores read from the mean over all tokens",
    "every_token": "class scores read at every token that has a label",
}


IGNORED = -100
"""The label of a token that has none: nothing is asked there. As in torch's cross_entropy."""


@dataclass(frozen=True)
class Batch:
    """Labelled sequences.

    Attributes:
        tokens: [count, length], int32.
        labels: [count], int64; [count, length] for the readout "every_token", `IGNORED` where nothing is asked; see
            `Task.asked`.
    """

    tokens: np.ndarray
    labels: np.ndarray


class Task:
    """A synthetic task. Subclass it, set the attributes, write `sequences`; see tasks/README.md.

    Attributes:
        name: as in a study.
        summary: one line for `sweep list`.
        readouts: the readouts that make sense, the default first.
        positions: "learned" or "none": whether tokens are told where they stand.
        causal: whether a token sees those up to itself only.
        cases: names of the kinds of sequence that are also judged apart, each on its own set of equal size.
        vocabulary: default number of tokens.
        has_bias: whether `case_bias` changes the training data.
        answers_position: whether the classes are positions in the sequence.
        own: values of a trial that this task alone has, by name, as this instance has them; see `having`.
    """

    name: str
    summary: str
    readouts: tuple[str, ...]
    positions: str = "none"
    causal: bool = False
    cases: tuple[str, ...] = ()
    vocabulary: int = 100
    has_bias: bool = False
    answers_position: bool = False
    own: Mapping[str, int] = MappingProxyType({})
    JUDGED = 10_000
    """Sequences from which the accuracy of a trivial answer is computed."""

    def having(self, **own: int) -> "Task":
        """This task with other values of its own."""
        return type(self)(**own) if own else self

    def check(self, length: int, vocabulary: int) -> None:
        """Raises ValueError, with the reason, where the task has no sequences of this length or vocabulary."""
        if length < 2:
            raise ValueError(f"length = {length}: {self.name} needs sequences of at least 2 tokens")
        if vocabulary < 2:
            raise ValueError(f"vocabulary = {vocabulary}: {self.name} needs at least 2 different tokens")

    def eval_length(self, length: int) -> int:
        """Length of the evaluation's sequences for models trained at `length`."""
        return length

    def length_of(self, filler: int) -> int | None:
        """The length of sequences with so much filler; None where a task has none."""
        return None

    def classes(self, length: int, vocabulary: int) -> int:
        """How many classes the readouts other than `pointer` score."""
        raise NotImplementedError

    def asked(self, length: int) -> int | None:
        """How many tokens of every sequence have a label, where not all of them and for the readout "every_token"; else
        None."""
        return None

    def sequences(self, random: np.random.Generator, count: int, length: int, vocabulary: int) -> Batch:
        """`count` fresh sequences as the task draws them."""
        raise NotImplementedError

    def case_sequences(self, random: np.random.Generator, case: str, count: int, length: int, vocabulary: int) -> Batch:
        """`count` fresh sequences of one case, distributed as `sequences` given that case."""
        raise NotImplementedError

    def chance(self, length: int, vocabulary: int) -> float:
        """Accuracy of an answer drawn from all that there may be."""
        return 1 / self.classes(length, vocabulary)

    def baseline(self, length: int, vocabulary: int) -> tuple[str, float]:
        """The best trivial way to answer, in words, and its accuracy."""
        return "the best constant answer", self.best_constant(length, vocabulary)

    def best_constant(self, length: int, vocabulary: int) -> float:
        """Accuracy of the one answer that is right most often, over `JUDGED` sequences: what can be had without
        looking."""
        labels = self.sequences(stream(0, "best constant"), self.JUDGED, length, vocabulary).labels
        labels = labels[labels != IGNORED]
        return float(np.bincount(labels).max() / labels.size)

    def biased(self, random: np.random.Generator, batch: Batch, case_bias: int, vocabulary: int) -> Batch:
        """`batch` with its mix of cases moved by `case_bias`; only called where `has_bias`."""
        raise NotImplementedError
