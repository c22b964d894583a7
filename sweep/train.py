"""Training a pack: a pure function of its trials. No files, no network, no global state.

The models of a pack share nothing: losses are summed over models, never averaged, and every gradient, norm and update
is a model's own. So a trial's curve does not depend on its pack (law 3), and a diverging neighbour cannot touch it
(law 4).
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from models.dropout import Dropout
from models.network import Network
from models.packed import stack
from sweep.compiled import Update, compiled_step, pays
from sweep.data import Ahead, Drawn, drawn, dropout_keys, eval_sets
from sweep.epoch import Epoch
from sweep.measure import Measurement, Totals, asked_of, losses_and_hits, measurements
from sweep.optim import Adam, step_factor
from sweep.step import Outcome, Step, products_in
from sweep.trial import Trial
from tasks import stream

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.float32, "fp64": torch.float64}
"""Types of parameters, by precision."""

EVAL_ELEMENTS = {"cpu": 2**21, "cuda": 2**25, "mps": 2**23}
"""An evaluation runs in chunks of about as many elements (models × sequences × `NetworkSpec.elements`), by device. On a
CPU from 2^17 to 2^21 make no difference that can be measured: layers work in pieces of their own."""


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


@dataclass(frozen=True)
class Options:
    """How to train; changes no result beyond rounding.

    Attributes:
        compile: "auto", "on" or "off"; see `sweep.compiled`.
        packs_ahead: packs of this shape that are to follow in this process.
        capture: whether steps on a CUDA device are captured and replayed.
    """

    compile: str = "auto"
    packs_ahead: int = 0
    capture: bool = True


def train(trials: Sequence[Trial], device: str = "cpu", options: Options = Options()) -> Iterator[EpochRecord]:
    """Trains trials of one shape together and yields a record after each epoch.

    Ends early when every trial has diverged.

    Raises:
        ValueError: no trials, or trials of different shapes.
    """
    pack = Pack(trials, torch.device(device), options)
    epochs = range(trials[0].epochs)
    try:
        with Ahead(chain.from_iterable(drawn(trials, epoch) for epoch in epochs), pack.device) as data:
            for epoch in epochs:
                with matrix_products(trials[0].precision):
                    record = pack.train_epoch(epoch, data)
                yield record
                if all(step is not None for step in pack.diverged_step):
                    return
    finally:
        pack.release()


@dataclass
class Pack:
    """The state of trials in training."""

    trials: Sequence[Trial]
    device: torch.device
    options: Options = Options()
    diverged_step: list[int | None] = field(init=False)

    def __post_init__(self) -> None:
        if not self.trials:
            raise ValueError("a pack needs at least one trial")
        first = self.trials[0]
        if any(trial.shape != first.shape for trial in self.trials):
            raise ValueError("the trials of a pack must have one shape")
        self.first = first
        self.dtype = DTYPES[first.precision]
        self.network = Network(first.network)
        self.diverged_step = [None] * len(self.trials)
        flat = self._start()
        self.p = {name: view.requires_grad_() for name, view in self.step_of.views(flat).items()}
        self.adam = Adam.start(flat, self._decay())
        self.rate_M1 = self._column("learning_rate")
        self.drops = any(trial.dropout for trial in self.trials)
        self.update: Update = self._eager
        self.epoch: Epoch | None = None

    def _column(self, name: str) -> Tensor:
        values = [getattr(trial, name) for trial in self.trials]
        return torch.tensor(values, dtype=self.dtype, device=self.device)[:, None]

    def _start(self) -> Tensor:
        """Initial weights, one flat row a model."""
        draws = [(partial(_init_stream, trial.seed), trial.init_scale) for trial in self.trials]
        arrays = stack(self.network.parameters(), draws)
        self.step_of = Step(self.first, self.network, {name: array.shape for name, array in arrays.items()})
        flat = torch.cat([torch.from_numpy(a).flatten(1) for a in arrays.values()], dim=1)
        return flat.to(self.device, self.dtype)

    def _decay(self) -> Tensor | None:
        if not any(trial.weight_decay for trial in self.trials):
            return None
        masks = [
            torch.full((size,), float(parameter.decays), dtype=self.dtype, device=self.device)
            for size, parameter in zip(self.step_of.sizes, self.network.parameters().values())
        ]
        return self._column("weight_decay") * torch.cat(masks)

    def _eager(
        self, adam: Adam, tokens_MBL: Tensor, labels: Tensor, rate_M1: Tensor, dropout: Dropout | None
    ) -> Outcome:
        return self.step_of.eager(adam, self.p, tokens_MBL, labels, rate_M1, dropout)

    def _dropout(self, epoch: int) -> Dropout | None:
        """What is dropped in the steps of an epoch; None where nothing is."""
        if not self.drops:
            return None
        return Dropout(dropout_keys(self.trials, epoch).to(self.device), self._column("dropout").squeeze(1))

    def train_epoch(self, epoch: int, data: Iterator[Drawn]) -> EpochRecord:
        """Trains one epoch (0-based), evaluates, and reports. Takes its sequences from `data`."""
        started = time.perf_counter()
        losses_SM, trained = self.train_steps(epoch, next(data))
        totals = [trained, *(self.judged(next(data)) for _ in eval_sets(self.first))]
        results = measurements(totals)  # the first wait for the device
        self._note_divergence(losses_SM, epoch, results)
        self._compile_if_it_pays(epoch, time.perf_counter() - started)
        kept = [
            [] if self.diverged_step[m] is not None else [result[m] for result in results]
            for m in range(len(self.trials))
        ]
        return EpochRecord(epoch + 1, self.first.epochs, kept, list(self.diverged_step))

    def train_steps(self, epoch: int, given: Drawn) -> tuple[Tensor, Totals]:
        """An epoch's steps on sequences. Returns their losses, [S, M], and sums over them."""
        first = self.first
        steps = range(epoch * first.steps_per_epoch, (epoch + 1) * first.steps_per_epoch)
        factors = [step_factor(first.schedule, step, first.steps) for step in steps]
        rates_SM1 = torch.tensor(factors, dtype=torch.float64)[:, None, None] * self.rate_M1.cpu()
        rates_SM1 = rates_SM1.to(self.device, self.dtype)
        dropout = self._dropout(epoch)
        if self.epoch is None:
            self.epoch = Epoch(partial(self.update, self.adam), given.data, rates_SM1, dropout, self.options.capture)
        losses_SM, hits_SM = self.epoch.run(given.data, rates_SM1, dropout)
        totals = Totals.zero("train", first.length, "all", len(self.trials), self.device)
        answers = given.data.answers // len(steps)
        totals.loss_M += losses_SM.to(totals.loss_M.dtype).sum(dim=0) * answers
        totals.correct_M += hits_SM.sum(dim=0)
        totals.count = answers * len(steps)
        return losses_SM, totals

    def step(self, tokens_MBL: Tensor, labels: Tensor, step: int) -> Outcome:
        """One optimizer step on given sequences. Returns, before the update: mean loss [M] and right answers [M]."""
        rate_M1 = self.rate_M1 * step_factor(self.first.schedule, step, self.first.steps)
        epoch, place = divmod(step, self.first.steps_per_epoch)
        dropout = self._dropout(epoch)
        here = dropout and dropout.of_step(torch.tensor([place], device=self.device))
        return self.update(self.adam, tokens_MBL, labels, rate_M1, here)

    def compile(self) -> None:
        """Goes on with a compiled step."""
        self.update, self.epoch = compiled_step(self.step_of, self.key, self._eager), None

    def release(self) -> None:
        """Lets go of what refers back to this pack, so that its memory is free before the next one wants it."""
        self.epoch, self.update = None, _released

    @property
    def key(self) -> tuple:
        """What a compiled step depends on."""
        return (self.first.shape, len(self.trials), str(self.device), self.adam.decay is not None, self.drops)

    def _compile_if_it_pays(self, epoch: int, seconds: float) -> None:
        ahead = self.first.epochs - epoch - 1 + self.options.packs_ahead * self.first.epochs
        if self.update == self._eager and pays(self.options.compile, self.device, self.key, ahead * seconds):
            self.compile()

    @torch.inference_mode()
    def judged(self, given: Drawn) -> Totals:
        """Losses and right answers on given sequences, without training."""
        totals = Totals.zero(given.split, given.length, given.case, len(self.trials), self.device)
        data = given.data.to(self.device)
        count = data.tokens.shape[1]
        asked = self.first.generator.asked(given.length)
        elements = len(self.trials) * self.network.spec.elements(given.length)
        chunk = max(EVAL_ELEMENTS[self.device.type] // elements, 1)
        for start in range(0, count, chunk):
            tokens, labels = data.part(start, start + chunk)
            with products_in(self.first.precision, self.device):
                labels, places = asked_of(labels, asked)
                loss_M, correct_M = losses_and_hits(self.network(self.p, tokens, places), labels)
            totals.add(loss_M, correct_M, tokens.shape[1] * given.data.answers // count)
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
        for state in (self.adam.flat, self.adam.mean, self.adam.square, self.rate_M1):
            state[m] = 0


@contextmanager
def matrix_products(precision: str) -> Iterator[None]:
    """Whether products of float32 matrices may use TF32 on a GPU: with "tf32" only. As before afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _released(*_: object) -> Outcome:
    raise RuntimeError("this pack's training has ended")


def _init_stream(seed: int, name: str):
    return stream(seed, f"init/{name}")
