"""The data of a pack: each trial's sequences, drawn once for trials that see the same, and ahead of their use."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Condition, Thread

import numpy as np
import torch
from torch import Tensor

from sweep.trial import Trial
from tasks import IGNORED, TASKS, Batch, stream

MOST_AHEAD = 2**28
"""Bytes of sequences that wait to be used."""


@dataclass(frozen=True)
class Stacked:
    """Sequences of several models; what models share is held once.

    Attributes:
        tokens: [U, count, L], int32, of U different draws.
        labels: [U, count] or [U, count, L], int64.
        draw_M: which draw each model has, [M].
    """

    tokens: Tensor
    labels: Tensor
    draw_M: Tensor

    def part(self, low: int, high: int) -> tuple[Tensor, Tensor]:
        """Sequences `low` to `high` of every model: tokens [M, B, L], labels [M, B] or [M, B, L]."""
        return self.tokens[:, low:high][self.draw_M], self.labels[:, low:high][self.draw_M]

    def to(self, device: torch.device) -> "Stacked":
        """The same on a device. From pinned memory the copy is not waited for."""
        return Stacked(*(t.to(device, non_blocking=True) for t in (self.tokens, self.labels, self.draw_M)))

    def pinned(self) -> "Stacked":
        """The same in memory from which an accelerator copies by itself."""
        return Stacked(*(t.pin_memory() for t in (self.tokens, self.labels, self.draw_M)))

    @property
    def answers(self) -> int:
        """Answers that each model is asked for; every sequence has as many."""
        return self.labels.shape[1] * int((self.labels[0, 0] != IGNORED).sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the sequences."""
        return self.tokens.nbytes + self.labels.nbytes


@dataclass(frozen=True)
class Drawn:
    """Sequences and what they are for; see `measure.Measurement`."""

    split: str
    length: int
    case: str
    data: Stacked


def train_batch(trial: Trial, epoch: int) -> Batch:
    """A trial's training sequences of one epoch (0-based), in the order of its steps."""
    task = trial.generator
    count = trial.steps_per_epoch * trial.batch_size
    batch = task.sequences(stream(trial.seed, "train", epoch), count, trial.length, trial.vocabulary)
    if trial.case_bias:  # from a stream of its own: before the bias, all trials of a seed have the same sequences
        batch = task.biased(stream(trial.seed, "bias", epoch), batch, trial.case_bias, trial.vocabulary)
    return batch


def eval_batch(trial: Trial, epoch: int, length: int) -> Batch:
    """A trial's evaluation sequences of one epoch, fresh in each, of a length."""
    random = stream(trial.seed, "eval" if length == trial.eval_length else f"eval/{length}", epoch)
    return trial.generator.sequences(random, trial.eval_samples, length, trial.vocabulary)


def case_batch(trial: Trial, epoch: int, case: str, length: int) -> Batch:
    """A trial's sequences of one case, one part of the equalised set."""
    random = stream(trial.seed, f"case/{case}/{length}", epoch)
    return trial.generator.case_sequences(random, case, trial.samples_per_case or 0, length, trial.vocabulary)


def dropout_keys(trials: Sequence[Trial], epoch: int) -> Tensor:
    """What each trial's dropout hashes in each step of an epoch, from its own stream: [S, M, 2·depth, 2], int32."""
    shape, bounds = (trials[0].steps_per_epoch, 2 * trials[0].depth, 2), np.iinfo(np.int32)
    of_seed = {
        seed: stream(seed, "dropout", epoch).integers(bounds.min, bounds.max, shape, np.int32, endpoint=True)
        for seed in {trial.seed for trial in trials}
    }
    return torch.from_numpy(np.stack([of_seed[trial.seed] for trial in trials], axis=1))


def stacked(trials: Sequence[Trial], draw: Callable[[Trial], Batch]) -> Stacked:
    """What `draw` gives for every trial; drawn once for trials of one seed and bias."""
    drawn: dict[tuple[int, int], Batch] = {}
    for trial in trials:
        key = (trial.seed, trial.case_bias)
        if key not in drawn:
            drawn[key] = _asked_alike(trial, draw(trial))
    index = {key: i for i, key in enumerate(drawn)}
    draw_M = torch.tensor([index[trial.seed, trial.case_bias] for trial in trials])
    tokens, labels = (
        torch.from_numpy(np.stack([getattr(batch, name) for batch in drawn.values()])) for name in ("tokens", "labels")
    )
    return Stacked(tokens, labels, draw_M)


def _asked_alike(trial: Trial, batch: Batch) -> Batch:
    """The batch. Raises ValueError where its task labels other tokens than it says: results would be nonsense."""
    if batch.labels.ndim == 2:
        length = batch.labels.shape[1]
        asked = trial.generator.asked(length)
        counts = (batch.labels != IGNORED).sum(axis=1)
        if (counts != (length if asked is None else asked)).any():
            raise ValueError(
                f"task {trial.task}: sequences of {length} tokens have {counts.min()} to {counts.max()} labels, and "
                f"Task.asked says {'all' if asked is None else asked}"
            )
    return batch


def eval_sets(trial: Trial) -> list[tuple[str, int]]:
    """The sets that a trial is judged by after each epoch: case ("all", or one of the task's) and length."""
    cases = TASKS[trial.task].cases if trial.samples_per_case else ()
    lengths = sorted({trial.length, trial.eval_length})
    return [
        *(("all", length) for length in trial.judged_lengths),
        *((case, length) for case in cases for length in lengths),
    ]


def drawn(trials: Sequence[Trial], epoch: int) -> Iterator[Drawn]:
    """Everything a pack sees in an epoch, in the order of its use: training sequences, then those it is judged by."""
    first = trials[0]
    yield Drawn("train", first.length, "all", stacked(trials, partial(train_batch, epoch=epoch)))
    for case, length in eval_sets(first):
        draw = partial(eval_batch, epoch=epoch, length=length)
        if case != "all":
            draw = partial(case_batch, epoch=epoch, case=case, length=length)
        yield Drawn("eval", length, case, stacked(trials, draw))


class Ahead:
    """What an iterator gives, made by a thread while what came before is used; at most `MOST_AHEAD` bytes of it wait.

    Use it as a context: leaving it ends the thread.
    """

    def __init__(self, source: Iterator[Drawn], device: torch.device):
        self.source, self.pin = source, device.type == "cuda"
        self.waiting: deque[Drawn] = deque()
        self.error: BaseException | None = None
        self.ended = self.closed = False
        self.changed = Condition()
        self.thread = Thread(target=self._fill, name="data", daemon=True)

    def __enter__(self) -> "Ahead":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self.thread.join()

    def __iter__(self) -> Iterator[Drawn]:
        return self

    def __next__(self) -> Drawn:
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.ended)
            if self.waiting:
                item = self.waiting.popleft()
                self.changed.notify_all()
                return item
        if self.error is not None:
            raise self.error
        raise StopIteration

    def _fill(self) -> None:
        try:
            for item in self.source:
                if self.pin:
                    item = Drawn(item.split, item.length, item.case, item.data.pinned())
                if not self._put(item):
                    return
        except BaseException as error:  # raised again where it is waited for
            self.error = error
        finally:
            with self.changed:
                self.ended = True
                self.changed.notify_all()

    def _put(self, item: Drawn) -> bool:
        with self.changed:
            held = lambda: sum(each.data.nbytes for each in self.waiting)  # noqa: E731
            self.changed.wait_for(lambda: self.closed or not self.waiting or held() + item.data.nbytes <= MOST_AHEAD)
            self.waiting.append(item)
            self.changed.notify_all()
            return not self.closed
