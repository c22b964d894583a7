"""What a worker runs: one pack, from plain values to rows. Everything it needs comes in the payload."""

import ctypes
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cluster.events import BrokenProcess, is_out_of_memory
from sweep.plugins import code_of, load_plugins
from sweep.trial import Trial, as_row

if TYPE_CHECKING:
    from sweep.train import EpochRecord

COMPILE_MODES = ("auto", "on", "off")

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
"""Options of glibc's mallopt."""


@dataclass(frozen=True)
class Payload:
    """A pack for a worker.

    Attributes:
        trials: of one shape.
        attempts: the number of each trial's attempt, 1-based.
        device: "cpu", "cuda", …
        threads: processor threads that the worker may use; None leaves torch's own choice.
        versions: sweep_version and git_commit, as the driver knows them.
        compile: whether to compile the step: "auto", "on" or "off".
        packs_ahead: packs of this shape that are to follow on this worker.
        plugins: the user's modules that the trials need.
    """

    trials: Sequence[Trial]
    attempts: Sequence[int]
    device: str
    threads: int | None
    versions: dict[str, str | None]
    compile: str = "auto"
    packs_ahead: int = 0
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class EpochDone:
    """A pack in training has done an epoch."""

    epoch: int
    epochs: int
    diverged: int


@dataclass(frozen=True)
class PackDone:
    """A pack is trained: its trials' rows and their curves, as `results.schema` has them."""

    rows: list[dict[str, Any]]
    curves: list[dict[str, Any]]


def train_pack(payload: Payload) -> Iterator[EpochDone | PackDone]:
    """Trains a pack: a message after each epoch, then the rows."""
    import torch

    load_plugins(payload.plugins)
    check_code(payload.trials[0])

    set_up_worker(payload.threads)
    started = time.perf_counter()
    records = []
    for record in trained(payload):
        records.append(record)
        yield EpochDone(record.epoch, record.epochs, sum(step is not None for step in record.diverged_step))
    seconds = time.perf_counter() - started
    stamp = {
        **provenance(payload),
        "threads": torch.get_num_threads(),
        "torch_version": torch.__version__,
        "wall_seconds": seconds / len(payload.trials),
    }
    rows, curves = [], []
    for m, (trial, attempt) in enumerate(zip(payload.trials, payload.attempts, strict=True)):
        epochs = [record.measurements[m] for record in records if record.measurements[m]]
        diverged_step = records[-1].diverged_step[m]
        rows.append({**as_row(trial), **summary(trial, epochs, diverged_step), **stamp, "attempt": attempt})
        curves += [
            {"id": trial.id, "attempt": attempt, "epoch": epoch, **vars(measurement)}
            for epoch, measurements in enumerate(epochs, 1)
            for measurement in measurements
        ]
    yield PackDone(rows, curves)


def trained(payload: Payload) -> Iterator["EpochRecord"]:
    """A pack's training. Raises BrokenProcess where the GPU can no longer be used in this process."""
    from sweep.train import Options, train

    try:
        yield from train(payload.trials, payload.device, Options(payload.compile, payload.packs_ahead))
    except RuntimeError as error:
        if "CUDA error" in str(error) and not is_out_of_memory(error):  # a type of its own only from torch 2.8 on
            raise BrokenProcess(str(error).strip().splitlines()[0]) from error
        raise


def check_code(trial: Trial) -> None:
    """Raises RuntimeError where this process has other user's code than the trial stands for."""
    if code_of(trial.mixer, trial.task) != trial.code:
        raise RuntimeError(
            f"mixer {trial.mixer} or task {trial.task} is other code here than where the run was started: "
            "the modules of `plugins` must be the same everywhere"
        )


def set_up_worker(threads: int | None) -> None:
    """Gives this process its threads (None: torch's own choice), and flushes denormals to zero.

    Losses near zero bring denormals, with which a processor's arithmetic is up to a hundred times slower.
    """
    import torch

    if threads:
        torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Tells glibc's allocator to keep what a step has freed for the next one. Without it tensors beyond 32 MB are new
    memory in every step, which the system clears page by page: 3% of the time of a pack of two models of width 128."""
    allocator = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if allocator is not None:
        for option, value in ((M_MMAP_THRESHOLD, 2**30), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 2**26)):
            allocator(option, value)


def prepare(device: str) -> None:
    """Builds what a device needs once a machine, and says that it takes a while."""
    if device != "cpu":
        return
    from models import kernels

    if not kernels.all_built():
        print("building the CPU kernels (once on this machine, under a minute)", file=sys.stderr)
    kernels.enabled()


def provenance(payload: Payload) -> dict[str, Any]:
    """Where and with what a pack was run, as far as it is known without loading torch."""
    return {
        "pack_width": len(payload.trials),
        "device": payload.device,
        "host": socket.gethostname(),
        "finished_at": datetime.now(UTC),
        **payload.versions,
    }


def failed_row(payload: Payload, status: str, error: str) -> dict[str, Any]:
    """The row of a trial that was alone in its pack and failed."""
    (trial,), (attempt,) = payload.trials, payload.attempts
    return {**as_row(trial), **provenance(payload), "status": status, "error": error, "attempt": attempt}


def summary(trial: Trial, epochs: list[list[Any]], diverged_step: int | None) -> dict[str, Any]:
    """A trial's outcome: status and the metrics of its row. Bests are over the epochs before a divergence."""
    row: dict[str, Any] = {"status": "ok" if diverged_step is None else "diverged", "diverged_step": diverged_step}
    row["train_flops"] = trial.train_flops
    for split in ("train", "eval"):
        length = trial.length if split == "train" else trial.eval_length
        points = [
            measurement
            for measurements in epochs
            for measurement in measurements
            if (measurement.split, measurement.length, measurement.case) == (split, length, "all")
        ]
        if not points:
            continue
        accuracies, losses = [p.correct / p.count for p in points], [p.loss for p in points]
        row[f"best_{split}_accuracy"], row[f"best_{split}_loss"] = max(accuracies), min(losses)
        row[f"last_{split}_accuracy"], row[f"last_{split}_loss"] = accuracies[-1], losses[-1]
        if diverged_step is None:
            row[f"final_{split}_accuracy"], row[f"final_{split}_loss"] = accuracies[-1], losses[-1]
        if split == "eval":
            row["best_eval_epoch"] = accuracies.index(max(accuracies)) + 1
    return row


def available_threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
