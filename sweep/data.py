"""The data of a pack: each trial's sequences, drawn once for trials that see the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sweep.trial import Trial
from tasks import TASKS, Batch, stream


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


def train_batch(trial: Trial, epoch: int) -> Batch:
    """A trial's training sequences of one epoch (0-based), in the order of its steps."""
    task = TASKS[trial.task]
    count = trial.steps_per_epoch * trial.batch_size
    batch = task.sequences(stream(trial.seed, "train", epoch), count, trial.length, trial.vocabulary)
    if trial.case_bias:  # from a stream of its own: before the bias, all trials of a seed have the same sequences
        batch = task.biased(stream(trial.seed, "bias", epoch), batch, trial.case_bias, trial.vocabulary)
    return batch


def eval_batch(trial: Trial, epoch: int) -> Batch:
    """A trial's evaluation sequences of one epoch, fresh in each, at its evaluation length."""
    random = stream(trial.seed, "eval", epoch)
    return TASKS[trial.task].sequences(random, trial.eval_samples, trial.eval_length, trial.vocabulary)


def case_batch(trial: Trial, epoch: int, case: str, length: int) -> Batch:
    """A trial's sequences of one case, one part of the equalised set."""
    random = stream(trial.seed, f"case/{case}/{length}", epoch)
    return TASKS[trial.task].case_sequences(random, case, trial.samples_per_case or 0, length, trial.vocabulary)


def stacked(trials: Sequence[Trial], device: torch.device, draw: Callable[[Trial], Batch]) -> Stacked:
    """What `draw` gives for every trial, on the device; drawn once for trials of one seed and bias."""
    drawn: dict[tuple[int, int], Batch] = {}
    for trial in trials:
        key = (trial.seed, trial.case_bias)
        if key not in drawn:
            drawn[key] = draw(trial)
    index = {key: i for i, key in enumerate(drawn)}
    draw_M = torch.tensor([index[trial.seed, trial.case_bias] for trial in trials], device=device)
    tokens, labels = (
        torch.from_numpy(np.stack([getattr(batch, name) for batch in drawn.values()])).to(device)
        for name in ("tokens", "labels")
    )
    return Stacked(tokens, labels, draw_M)
