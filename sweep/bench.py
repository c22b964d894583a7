"""What this machine reaches in training, and the calibration that `sweep plan` estimates with."""

import json
import statistics
import time
from dataclasses import asdict
from typing import Any

from results.files import save_text
from sweep.estimate import Rate, calibration_path
from sweep.packs import pack_width
from sweep.trial import Trial

SHAPES = [
    (task, width, model)
    for task, models in (("mode", ("nap", "mte", "sum", "max")), ("cases", ("nap", "mte", "sum", "max")))
    for width in (16, 32, 128)
    for model in models
]
STEPS, WARM_UP = 5, 2


def bench(device: str, threads: int) -> list[dict[str, Any]]:
    """Measures a training step of some shapes of the paper.

    Returns:
        One dict a shape: task, model, width, pack_width, seconds_per_step (a model's, median), flops_per_second.
    """
    import torch

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    return [_measured(task, model, width, device) for task, width, model in SHAPES]


def _measured(task: str, model: str, width: int, device: str) -> dict[str, Any]:
    import torch

    from sweep.data import stacked, train_batch
    from sweep.train import Pack

    values = dict(task=task, model=model, width=width, epochs=1, steps_per_epoch=STEPS + WARM_UP)
    models = pack_width(Trial.from_values(values))
    trials = [Trial.from_values({**values, "seed": seed}) for seed in range(models)]
    pack = Pack(trials, torch.device(device))
    data = stacked(trials, pack.device, lambda trial: train_batch(trial, 0))
    seconds = []
    for step in range(STEPS + WARM_UP):
        tokens, labels = data.part(step * trials[0].batch_size, (step + 1) * trials[0].batch_size)
        started = time.perf_counter()
        pack.step(tokens, labels, step)[0].sum().item()
        seconds.append((time.perf_counter() - started) / models)
    each = statistics.median(seconds[WARM_UP:])
    flops = trials[0].train_flops / trials[0].steps
    sizes = {"task": task, "model": model, "width": width, "pack_width": models}
    return {**sizes, "seconds_per_step": each, "flops_per_second": flops / each}


def save_calibration(measured: list[dict[str, Any]]) -> None:
    """Keeps what was measured where `sweep plan` looks for it."""
    trials = [Trial.from_values({name: entry[name] for name in ("task", "model", "width")}) for entry in measured]
    rates = [
        asdict(Rate(trial.mixer, trial.width, trial.length, 1 / entry["flops_per_second"]))
        for trial, entry in zip(trials, measured)
    ]
    path = calibration_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    save_text(path, json.dumps({"rates": rates}, indent=1))
