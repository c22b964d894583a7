"""Trials an hour of `paper/mode-width` at widths 8 to 32: two workers with packs beside two plain loops.

`make bench-throughput`: some minutes of two cores. Both run in turn, two processes at a time with a thread each, and do
what a trial does: its steps and its evaluation after each epoch. An epoch of every model and width is measured and
counted 32 times.
"""

import multiprocessing
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

WIDTHS, MODELS, WORKERS = (8, 16, 32), ("nap", "non", "bert", "mte", "sum", "max"), 2
PLAIN_STEPS, PLAIN_SEQUENCES = 6, 128
"""Of a plain epoch's 100 steps and 1,024 evaluated sequences, those that are measured."""


def packed(values: dict) -> float:
    """Seconds of an epoch of one trial in a pack."""
    import torch

    from sweep.data import drawn
    from sweep.packs import pack_width
    from sweep.train import Pack
    from sweep.trial import Trial

    models = min(pack_width(Trial.from_values(values)), 50)  # a shape of the study has 50 trials
    trials = [Trial.from_values({**values, "seed": seed % 5, "epochs": 2}) for seed in range(models)]
    pack = Pack(trials, torch.device("cpu"))
    began = time.perf_counter()
    pack.train_epoch(0, drawn(trials, 0))
    return (time.perf_counter() - began) / models


def plain(values: dict) -> float:
    """Seconds of an epoch of one trial as a plain loop."""
    import torch

    from models.plain import PlainModel
    from sweep.bench import plain_step
    from sweep.data import drawn
    from sweep.trial import Trial

    trial = Trial.from_values(values)
    step = plain_step(trial, "cpu")
    sets = drawn([trial], 0)
    training, evaluation = next(sets).data, next(sets).data
    seconds = []
    for at in range(PLAIN_STEPS):
        tokens, labels = training.part(at * trial.batch_size, (at + 1) * trial.batch_size)
        began = time.perf_counter()
        step(tokens[0], labels[0])
        seconds.append(time.perf_counter() - began)
    model = PlainModel(trial.network)
    tokens, _ = evaluation.part(0, PLAIN_SEQUENCES)
    began = time.perf_counter()
    with torch.inference_mode():
        model(tokens[0])
    judged = (time.perf_counter() - began) * trial.eval_samples / PLAIN_SEQUENCES
    return statistics.median(seconds[1:]) * trial.steps_per_epoch + judged


def worker(_: int) -> dict[str, list[float]]:
    """One worker's measurements."""
    from sweep.work import set_up_worker

    set_up_worker(1)
    found: dict[str, list[float]] = {"packed": [], "plain": []}
    for width in WIDTHS:
        for model in MODELS:
            values = {"task": "mode", "model": model, "width": width}
            found["packed"].append(packed(values))
            found["plain"].append(plain(values))
    return found


def main() -> None:
    from models import kernels

    kernels.enabled()
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        both = pool.map(worker, range(WORKERS))
    rates = {}
    for kind in ("packed", "plain"):
        mean = statistics.mean(seconds for each in both for seconds in each[kind])
        rates[kind] = WORKERS * 3600 / (32 * mean)
        print(f"{kind:7} {rates[kind]:8,.0f} trials an hour with {WORKERS} processes")
    print(f"{rates['packed'] / rates['plain']:.1f} times as many")


if __name__ == "__main__":
    main()
