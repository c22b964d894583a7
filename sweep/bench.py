"""What this machine can do, what training reaches of it, and the calibration that `sweep plan` estimates with."""

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.nn import functional

from models.plain import PlainModel
from sweep.compiled import SAVED_SHARE
from sweep.data import drawn
from sweep.device import free_memory
from sweep.errors import InfrastructureError
from sweep.estimate import Rate, calibration_path
from sweep.packs import pack_width
from sweep.train import Pack, matrix_products
from sweep.trial import Trial

SHAPES = [
    {"task": task, "width": width, "model": model}
    for task in ("cases", "mode")
    for width in (16, 32, 128)
    for model in ("nap", "mte", "bert", "sum", "max")
] + [{"task": "cases", "width": 512, "model": model} for model in ("nap", "sum")]

LENGTHS = [
    {"task": "mode", "width": 32, "model": model, "length": length, "batch_size": 8192 // length}
    for model in ("nap", "mte")
    for length in (128, 512, 2048, 4096)
]
"""One number of tokens a step at every length: what a token costs."""

ROUNDS = {"cpu": 7, "cuda": 5, "mps": 5}
STEPS = {"cpu": 1, "cuda": 40, "mps": 20}
"""Steps of a round, by device: an accelerator is waited for once a round, as it is once an epoch."""


@dataclass(frozen=True)
class Ceilings:
    """What one worker's threads can do: the best of some rounds.

    Attributes:
        matrix_flops: float32 operations a second in products of 1024×1024 matrices.
        copy_bytes: bytes a second, read and written, of copying 128 MB.
    """

    matrix_flops: float
    copy_bytes: float


@dataclass(frozen=True)
class Reached:
    """A training step of one shape.

    Attributes:
        pack_width: models in the pack.
        seconds: a model's share of a pack's step, median.
        plain_seconds: of the same step by one plain PyTorch model, median, measured in turn with the pack's.
        flops: operations of a model's step, matrix products only.
        tokens: of a model's step.
        ceiling_flops: the device's ceiling in products of matrices, measured in turn with the steps.
    """

    task: str
    model: str
    width: int
    length: int
    pack_width: int
    seconds: float
    plain_seconds: float
    flops: float
    tokens: int
    ceiling_flops: float

    @property
    def speedup(self) -> float:
        """How many times as fast as the plain loop."""
        return self.plain_seconds / self.seconds

    @property
    def flops_per_second(self) -> float:
        """Operations a second."""
        return self.flops / self.seconds


def ceilings(device: str, n: int = 1024, dtype: torch.dtype = torch.float32) -> Ceilings:
    """Measures the device's ceilings with the threads that are set, in products of n × n matrices."""
    elements = 2**24
    source, target = torch.randn(elements, device=device), torch.empty(elements, device=device)
    copy = min(_seconds(lambda: target.copy_(source), device) for _ in range(10))
    return Ceilings(matrix_ceiling(device, 10, n, dtype), 2 * 4 * elements / copy)


def matrix_ceiling(device: str, rounds: int, n: int = 1024, dtype: torch.dtype = torch.float32) -> float:
    """Operations a second in products of n × n matrices: the best of some rounds."""
    a, b = torch.randn(2, n, n, device=device, dtype=dtype)
    return 2 * n**3 / min(_seconds(lambda: torch.mm(a, b), device) for _ in range(rounds))


def reached(shape: dict[str, Any], device: str, rounds: int | None = None) -> Reached:
    """Measures a training step of a shape of the paper, as training runs it, and by a plain model in turn."""
    kind = torch.device(device).type
    steps, rounds = STEPS[kind], rounds or ROUNDS[kind]
    values = {**shape, "epochs": rounds + 1, "steps_per_epoch": steps}
    models = pack_width(Trial.from_values(values), free_memory(device))
    trials = [Trial.from_values({**values, "seed": seed}) for seed in range(models)]
    pack, plain = Pack(trials, torch.device(device)), plain_step(trials[0], device)
    if kind in SAVED_SHARE:
        pack.compile()
    packed_seconds, plain_seconds, highest = [], [], 0.0
    for epoch in range(rounds + 1):
        data = next(drawn(trials, epoch))
        tokens, labels = data.data.to(pack.device).part(0, trials[0].batch_size)
        with matrix_products(trials[0].precision):
            packed_seconds.append(_seconds(lambda: pack.train_steps(epoch, data), device) / models / steps)  # noqa: B023  called now
            plain_seconds.append(_seconds(lambda: plain(tokens[0], labels[0]), device))  # noqa: B023
        highest = max(highest, matrix_ceiling(device, 3))
    trial = trials[0]
    return Reached(
        task=shape["task"],
        model=shape["model"],
        width=trial.width,
        length=trial.length,
        pack_width=models,
        seconds=statistics.median(packed_seconds[1:]),  # the first warms up
        plain_seconds=statistics.median(plain_seconds[1:]),
        flops=trial.train_flops / trial.steps,
        tokens=trial.batch_size * trial.length,
        ceiling_flops=highest,
    )


def plain_step(trial: Trial, device: str) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """A training step as one writes it for one model."""
    net = PlainModel(trial.network).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=trial.learning_rate, eps=1e-7)

    def step(tokens: torch.Tensor, labels: torch.Tensor) -> None:
        optimizer.zero_grad()
        functional.cross_entropy(net(tokens).flatten(0, -2), labels.flatten()).backward()
        if trial.clip_norm:
            for p in net.parameters():
                torch.nn.utils.clip_grad_norm_(p, trial.clip_norm)
        optimizer.step()

    return step


def _seconds(call: Callable[[], object], device: str) -> float:
    started = time.perf_counter()
    call()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - started


def save_calibration(measured: list[Reached]) -> None:
    """Keeps what was measured where `sweep plan` looks for it.

    Raises:
        InfrastructureError: it cannot be written.
    """
    rates = []
    for shape in measured:
        values = {"task": shape.task, "model": shape.model, "width": shape.width, "length": shape.length}
        trial = Trial.from_values({**values, "batch_size": shape.tokens // shape.length})
        per_step = trial.training_cost / trial.steps
        rates.append(asdict(Rate(trial.mixer, trial.width, trial.length, shape.seconds / per_step)))
    path = calibration_path()
    from results.files import save_text

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_text(path, json.dumps({"rates": rates}, indent=1))
    except OSError as error:
        raise InfrastructureError(f"cannot keep the calibration at {path}: {error.strerror or error}") from None
