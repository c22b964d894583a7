"""Training a pack: a pure function of its trials. No files, no network, no global state.

The models of a pack share nothing: losses are summed over models, never averaged, and every gradient, norm and update
is a model's own. So a trial's curve does not depend on its pack (law 3), and a diverging neighbour cannot touch it
(law 4).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from models.network import Network
from models.packed import stack
from sweep.data import Stacked, case_batch, eval_batch, stacked, train_batch
from sweep.optim import Adam, clip_factors, schedule_factor
from sweep.trial import Trial
from tasks import TASKS, stream

DTYPES = {"fp32": torch.float32, "fp64": torch.float64}

EVAL_ELEMENTS = 2**21
"""An evaluation runs in chunks of about as many stream elements (models × sequences × length × width)."""


@dataclass(frozen=True)
class Measurement:
    """How one model did on one set of sequences.

    Attributes:
        split: "train" (running mean over the epoch) or "eval".
        length: of the sequences.
        case: "all", or a case of the task's equalised set.
        loss: mean cross-entropy, nats.
        correct, count: right answers, answers.
    """

    split: str
    length: int
    case: str
    loss: float
    correct: int
    count: int


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch of a pack gave.

    Attributes:
        epoch: 1-based.
        epochs: how many there will be.
        measurements: per trial, in the pack's order; empty once the trial has diverged.
        diverged_step: per trial, the 0-based step of the first loss that was not finite, or None.
    """

    epoch: int
    epochs: int
    measurements: list[list[Measurement]]
    diverged_step: list[int | None]


def train(trials: Sequence[Trial], device: str = "cpu") -> Iterator[EpochRecord]:
    """Trains trials of one shape together and yields a record after each epoch.

    Ends early when every trial has diverged.

    Raises:
        ValueError: no trials, or trials of different shapes.
    """
    pack = Pack(trials, torch.device(device))
    for epoch in range(trials[0].epochs):
        yield pack.train_epoch(epoch)
        if all(step is not None for step in pack.diverged_step):
            return


@dataclass
class Totals:
    """Sums over sequences, per model: loss (nats), right answers; and how many answers that is."""

    loss_M: Tensor
    correct_M: Tensor
    count: int = 0

    @classmethod
    def zero(cls, models: int, device: torch.device) -> "Totals":
        exact = torch.float32 if device.type == "mps" else torch.float64  # Apple's GPUs have no float64
        loss_M = torch.zeros(models, dtype=exact, device=device)
        return cls(loss_M, torch.zeros(models, dtype=torch.int64, device=device))

    def add(self, loss_M: Tensor, correct_M: Tensor, count: int) -> None:
        self.loss_M += loss_M
        self.correct_M += correct_M
        self.count += count

    def measurements(self, split: str, length: int, case: str) -> list[Measurement]:
        """One measurement a model."""
        losses, corrects = (self.loss_M / max(self.count, 1)).tolist(), self.correct_M.tolist()
        return [Measurement(split, length, case, loss, correct, self.count) for loss, correct in zip(losses, corrects)]


@dataclass
class Pack:
    """The state of trials in training."""

    trials: Sequence[Trial]
    device: torch.device
    diverged_step: list[int | None] = field(init=False)

    def __post_init__(self):
        if not self.trials:
            raise ValueError("a pack needs at least one trial")
        first = self.trials[0]
        if any(trial.shape != first.shape for trial in self.trials):
            raise ValueError("the trials of a pack must have one shape")
        self.first = first
        self.network = Network(first.network)
        self.diverged_step = [None] * len(self.trials)
        self.flat, self.p = self._start()
        self.rate_M1 = self._column("learning_rate")
        self.optimizer = Adam(self.flat, self._decay())

    def _column(self, name: str) -> Tensor:
        values = [getattr(trial, name) for trial in self.trials]
        return torch.tensor(values, dtype=DTYPES[self.first.precision], device=self.device)[:, None]

    def _start(self) -> tuple[Tensor, dict[str, Tensor]]:
        """Initial weights: one flat row a model, and the parameters as views of it that autograd takes for leaves."""
        draws = [(partial(_init_stream, trial.seed), trial.init_scale) for trial in self.trials]
        arrays = stack(self.network.parameters(), draws)
        flat = torch.cat([torch.from_numpy(a).flatten(1) for a in arrays.values()], dim=1)
        flat = flat.to(self.device, DTYPES[self.first.precision])
        sizes = [array[0].size for array in arrays.values()]
        views = {
            name: part.view(array.shape).requires_grad_()
            for (name, array), part in zip(arrays.items(), flat.split(sizes, dim=1))
        }
        return flat, views

    def _decay(self) -> Tensor | None:
        if not any(trial.weight_decay for trial in self.trials):
            return None
        masks = [
            torch.full((p[0].numel(),), float(parameter.decays), dtype=p.dtype, device=self.device)
            for p, parameter in zip(self.p.values(), self.network.parameters().values())
        ]
        return self._column("weight_decay") * torch.cat(masks)

    def train_epoch(self, epoch: int) -> EpochRecord:
        """Trains one epoch (0-based), evaluates, and reports."""
        first, totals = self.first, Totals.zero(len(self.trials), self.device)
        data = stacked(self.trials, self.device, partial(train_batch, epoch=epoch))
        losses = []
        for step in range(first.steps_per_epoch):
            tokens, labels = data.part(step * first.batch_size, (step + 1) * first.batch_size)
            loss_M, correct_M, answers = self.step(tokens, labels, epoch * first.steps_per_epoch + step)
            totals.add(loss_M * answers, correct_M, answers)
            losses.append(loss_M)
        results = [totals.measurements("train", first.length, "all")]
        results += self.evaluate(epoch)
        self._note_divergence(torch.stack(losses), epoch, results)
        measurements = [
            [] if self.diverged_step[m] is not None else [result[m] for result in results]
            for m in range(len(self.trials))
        ]
        return EpochRecord(epoch + 1, first.epochs, measurements, list(self.diverged_step))

    def step(self, tokens_MBL: Tensor, labels: Tensor, step: int) -> tuple[Tensor, Tensor, int]:
        """One optimizer step. Returns, before the update: mean loss [M], right answers [M], answers a model."""
        embedded = self.network.embedded(self.p, tokens_MBL)
        loss_M, correct_M, answers = losses_and_hits(self.network.scores(self.p, embedded), labels)
        wanted = list(self.p.values())
        if self.first.clip_norm:
            wanted.append(embedded)
        gradients = list(torch.autograd.grad(loss_M.sum(), wanted, materialize_grads=True))
        if self.first.clip_norm:
            gradients = self._clipped(gradients[:-1], gradients[-1])
        factor = schedule_factor(self.first.schedule, step, self.first.steps)
        self.optimizer.step(torch.cat([g.flatten(1) for g in gradients], dim=1), self.rate_M1 * factor)
        return loss_M.detach(), correct_M, answers

    def _clipped(self, gradients: Sequence[Tensor], embedded_gradient: Tensor) -> list[Tensor]:
        """Gradients clipped tensor by tensor, model by model.

        The embedding's is clipped by the norm of its rows before those of equal tokens are summed: TensorFlow clips
        such a gradient as slices, and the paper's BERT was trained so.
        """
        clipped = []
        for name, gradient in zip(self.p, gradients):
            measured = embedded_gradient if name == "embedding" else gradient
            factor_M = clip_factors(measured.flatten(1).norm(dim=1), self.first.clip_norm)
            clipped.append(gradient * factor_M.view(-1, *[1] * (gradient.dim() - 1)))
        return clipped

    def evaluate(self, epoch: int) -> list[list[Measurement]]:
        """Measurements at the evaluation length, and per case on the equalised sets; each a list over models."""
        length = self.first.eval_length
        data = stacked(self.trials, self.device, partial(eval_batch, epoch=epoch))
        results = [self.judged(data).measurements("eval", length, "all")]
        if self.first.samples_per_case:
            for case in TASKS[self.first.task].cases:
                for n in sorted({self.first.length, length}):
                    data = stacked(self.trials, self.device, partial(case_batch, epoch=epoch, case=case, length=n))
                    results.append(self.judged(data).measurements("eval", n, case))
        return results

    @torch.inference_mode()
    def judged(self, data: Stacked) -> Totals:
        """Losses and right answers on given sequences, without training."""
        totals = Totals.zero(len(self.trials), self.device)
        _, count, length = data.tokens.shape
        chunk = max(EVAL_ELEMENTS // (len(self.trials) * length * self.first.width), 1)
        for start in range(0, count, chunk):
            tokens, labels = data.part(start, start + chunk)
            loss_M, correct_M, answers = losses_and_hits(self.network(self.p, tokens), labels)
            totals.add(loss_M * answers, correct_M, answers)
        return totals

    def _note_divergence(self, losses_SM: Tensor, epoch: int, results: list[list[Measurement]]) -> None:
        """A trial diverges at the first step whose loss is not finite, or at the epoch's end if an evaluation's is
        not."""
        bad_SM = ~torch.isfinite(losses_SM).cpu()
        steps = losses_SM.shape[0]
        for m in range(len(self.trials)):
            if self.diverged_step[m] is not None:
                continue
            if bad_SM[:, m].any():
                self.diverged_step[m] = epoch * steps + int(bad_SM[:, m].int().argmax())
            elif not all(math.isfinite(result[m].loss) for result in results):
                self.diverged_step[m] = (epoch + 1) * steps - 1
            if self.diverged_step[m] is not None:
                self._freeze(m)

    @torch.no_grad()
    def _freeze(self, m: int) -> None:
        """Ends a diverged model: finite weights that no longer move, so that it costs no more than a model in
        training."""
        for state in (self.flat, self.optimizer.mean, self.optimizer.square, self.rate_M1):
            state[m] = 0


def losses_and_hits(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, int]:
    """Mean cross-entropy [M] and right answers [M] of scores [M, …, C] against labels [M, …], and answers a model."""
    m = scores.shape[0]
    flat = functional.cross_entropy(scores.flatten(0, -2), labels.flatten(), reduction="none").view(m, -1)
    correct_M = (scores.detach().argmax(dim=-1) == labels).flatten(1).sum(dim=1)
    return flat.mean(dim=1), correct_M, flat.shape[1]


def _init_stream(seed: int, name: str):
    return stream(seed, f"init/{name}")
