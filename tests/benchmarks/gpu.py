"""What training reaches on a GPU: `python3 tests/benchmarks/gpu.py`, at most six minutes, with torch and numpy alone.

1. Packed training on the GPU gives the CPU's curves: to 1e-8 in float64, to 2e-3 of the loss in float32's first epoch.
2. Ceilings: products of matrices in each precision, and copying.
3. Whole epochs, as `train` runs them: how much of them is steps, and how much drawing, evaluation and waiting.
4. Models a second against the width of the pack, at widths 32, 128 and 512; how many times the plain loop; the share of
   the measured ceiling of matrix products; what capturing and compiling a step cost and bring; the memory that a pack
   took beside what `sweep.packs` expects of it.
5. The time that all of the NAP paper's models would take at these speeds.

`--toy` runs the same on any device at toy size, as a test does on the CPU. `--json FILE` keeps the figures.
"""

import argparse
import json
import math
import platform
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from sweep.bench import ceilings, plain_step
from sweep.data import drawn
from sweep.estimate import Rate
from sweep.packs import pack_width
from sweep.train import Options, Pack, matrix_products, train
from sweep.trial import Trial

CLOSE = {"fp64": 1e-8, "fp32": 2e-3}
MODELS = ("nap", "non", "bert", "mte", "sum", "max")
RATES = [0.3**k for k in range(1, 11)]

PAPER = {
    "width": (("cases", "cases_first", "mode"), [2**k for k in range(3, 11)]),
    "depth": (("cases_first",), [2**k for k in range(7)]),
    "heads": (("cases_first",), [2**k for k in range(8)]),
    "length": (("cases",), [2**k for k in range(2, 10)]),
    "batch_size": (("cases",), [2**k for k in range(8)]),
    "vocabulary": (("mode",), [2**k for k in range(1, 9)]),
    "case_bias": (("cases", "local_global"), list(range(-3, 5))),
    "weight_decay": (("cases", "cases_first", "mode"), [0.2, 0.02, 0.002, 0.0002]),
}
"""The paper's sweeps: axis → tasks and values. Dropout's, not trained here yet, cost what weight decay's do."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--seconds", type=float, default=330.0, help="after which nothing new is measured")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA device; --device cpu --toy runs the same at toy size")
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    bench = Bench(options.device, options.toy, time.monotonic() + options.seconds)
    bench.run()
    if options.json:
        options.json.write_text(json.dumps(bench.figures, indent=1))
    sys.exit(0 if bench.figures["equal"] else 1)


class Bench:
    """The measurements, and what they gave."""

    def __init__(self, device: str, toy: bool, until: float):
        self.device, self.toy, self.until = torch.device(device), toy, until
        self.memory = self.started = math.nan
        self.figures: dict[str, Any] = {"device": self.name(), "torch": torch.__version__, "equal": True}

    def name(self) -> str:
        return torch.cuda.get_device_name() if self.device.type == "cuda" else platform.machine()

    def run(self) -> None:
        say(f"{self.name()}, torch {torch.__version__}")
        for part in (self.equality, self.ceilings, self.epochs, self.speeds, self.paper):
            self.guarded(part.__name__, part)

    def guarded(self, what: str, measure: Callable[[], Any]) -> Any:
        """What `measure` gives. Where it raises: None, and a failure is noted; what follows is still measured."""
        try:
            return measure()
        except Exception:
            self.figures["equal"] = False
            say(f"   FAILED: {what}\n" + "".join(traceback.format_exc()[-3000:]))
            return None

    def time_left(self, needed: float = 0.0) -> bool:
        return time.monotonic() + needed < self.until

    def equality(self) -> None:
        """Curves of the device beside the CPU's."""
        say("\n1. the CPU's curves\n   model precision   worst deviation of a loss")
        size = dict(
            length=16, width=16, batch_size=8, epochs=2, steps_per_epoch=10, eval_samples=64, samples_per_case=8
        )
        for model in MODELS:
            for precision, close in CLOSE.items():
                values = {**size, "task": "cases", "model": model, "precision": precision, "learning_rate": 0.001}
                some = [Trial.from_values({**values, "seed": seed}) for seed in range(3)]
                here, there = (list(train(some, device)) for device in (str(self.device), "cpu"))
                epochs = 1 if precision == "fp32" else 2  # rounding grows with every step
                worst = max((deviation(a, b) for a, b in zip(here[:epochs], there[:epochs])), default=math.inf)
                equal = worst < close
                self.figures["equal"] &= equal
                say(f"   {model:5} {precision:9} {worst:10.1e} of {close:.0e} allowed{'' if equal else '   TOO LARGE'}")

    def ceilings(self) -> None:
        """Products of matrices in each precision, and copying."""
        say("\n2. ceilings")
        found = {}
        n = 256 if self.toy else 8192
        for precision in ("fp32", "tf32", "bf16"):
            with matrix_products(precision):
                found[precision] = ceilings(
                    str(self.device), n, torch.bfloat16 if precision == "bf16" else torch.float32
                )
            say(f"   {precision}: {found[precision].matrix_flops / 1e12:8.2f} TFLOP/s")
        say(f"   copy: {found['fp32'].copy_bytes / 1e9:8.0f} GB/s")
        self.figures["ceilings"] = {name: vars(each) for name, each in found.items()}

    def speeds(self) -> None:
        """Models a second against pack width."""
        say("\n4. speed (cases, length 128, batch 32)")
        say("   model width precision step      pack   ms a model & step   plain   times   share   memory  start s")
        self.figures["speeds"] = []
        for model, width, precision, kind in self.shapes():
            if not self.time_left(60 if kind == "compiled" and not self.toy else 5):
                say("   (no time left for more)")
                return
            values = self.values(model, width, precision)
            self.guarded(f"{kind} {model} {width} {precision}", partial(self.speed, values, kind))

    def speed(self, values: dict[str, Any], kind: str) -> None:
        """One shape's steps in wider and wider packs, while that helps."""
        plain = self.plain_seconds(values)
        last = math.inf
        for models in self.pack_widths(values):
            if kind == "compiled" and models != 64 and not self.toy:
                continue  # each width of a pack is a program of its own
            measured = self.packed_seconds(values, models, kind)
            if measured is None:
                break
            self.note(values, models, kind, measured, plain)
            if measured > 0.97 * last or not self.time_left(10 + 12 * measured * models * values["steps_per_epoch"]):
                break
            last = measured

    def shapes(self) -> Iterator[tuple[str, int, str, str]]:
        """What is measured, the most wanted first."""
        if self.toy:
            yield from ((model, 8, "fp32", kind) for model, kind in (("nap", "eager"), ("sum", "compiled")))
            yield "nap", 8, "bf16", "eager"
            return
        for width, models in ((32, ("nap", "sum")), (128, ("nap", "sum", "mte"))):
            for model in models:
                yield model, width, "fp32", "captured"
                yield model, width, "fp32", "compiled"
        for precision in ("tf32", "bf16"):
            yield "nap", 128, precision, "captured"
        yield "nap", 32, "fp32", "eager"
        for model in ("nap", "sum", "mte"):
            yield model, 512, "fp32", "captured"
        for precision in ("tf32", "bf16"):
            yield "nap", 512, precision, "captured"

    def values(self, model: str, width: int, precision: str) -> dict[str, Any]:
        size = {"length": 8, "batch_size": 4, "steps_per_epoch": 5} if self.toy else {"steps_per_epoch": 20}
        return {"task": "cases", "model": model, "width": width, "precision": precision, "epochs": 3, **size}

    def pack_widths(self, values: dict[str, Any]) -> list[int]:
        memory = torch.cuda.mem_get_info()[0] if self.device.type == "cuda" else None
        most = (1 if values["model"] == "sum" else 4) if self.toy else pack_width(Trial.from_values(values), memory)
        return [width for width in ((1, 4) if self.toy else (1, 16, 64, 256, 512)) if width <= most]

    def packed_seconds(self, values: dict[str, Any], models: int, kind: str) -> float | None:
        """Seconds of a model's step in a pack; None where memory ran out."""
        some = [Trial.from_values({**values, "seed": seed % 4}) for seed in range(models)]
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_reserved()
        pack = None
        try:
            pack = Pack(some, self.device, Options("on" if kind == "compiled" else "off", capture=kind != "eager"))
            started = time.perf_counter()
            if kind == "compiled":
                pack.compile()
            seconds = []
            for epoch in range(3):
                data = next(drawn(some, epoch))
                self.wait()
                begun = time.perf_counter()
                with matrix_products(values["precision"]):
                    pack.train_steps(epoch, data)
                self.wait()
                seconds.append(time.perf_counter() - begun)
                if epoch == 0:
                    self.started = time.perf_counter() - started
        except torch.cuda.OutOfMemoryError:
            say(f"   {values['model']} {values['width']}: out of memory in packs of {models}")
            return None
        finally:
            if pack is not None:
                pack.release()
        if self.device.type == "cuda":
            expected = models * some[0].network.training_bytes(some[0].batch_size)
            self.memory = (torch.cuda.max_memory_reserved() - before) / expected
        return min(seconds[1:]) / values["steps_per_epoch"] / models

    def plain_seconds(self, values: dict[str, Any]) -> float:
        """Seconds of a step by one plain model."""
        trial = Trial.from_values(values)
        step = plain_step(trial, str(self.device))
        tokens, labels = next(drawn([trial], 0)).data.to(self.device).part(0, trial.batch_size)
        seconds = []
        with matrix_products(values["precision"]):
            for _ in range(3):
                self.wait()
                begun = time.perf_counter()
                for _ in range(5):
                    step(tokens[0], labels[0])
                self.wait()
                seconds.append((time.perf_counter() - begun) / 5)
        return statistics.median(seconds[1:])

    def note(self, values: dict[str, Any], models: int, kind: str, seconds: float, plain: float) -> None:
        trial = Trial.from_values(values)
        share = trial.train_flops / trial.steps / seconds / self.figures["ceilings"][trial.precision]["matrix_flops"]
        say(
            f"   {values['model']:5} {trial.width:5} {trial.precision:9} {kind:9} {models:4} {1000 * seconds:14.3f}"
            f" {1000 * plain:12.2f} {plain / seconds:9.1f}× {share:7.1%} {self.memory:8.2f} {self.started:7.1f}"
        )
        entry = {"model": values["model"], "width": trial.width, "precision": trial.precision, "kind": kind}
        self.figures["speeds"].append({**entry, "pack": models, "seconds": seconds, "plain": plain, "share": share})
        self.figures["speeds"][-1] |= {"memory": self.memory, "started": self.started}

    def epochs(self) -> None:
        """Epochs of whole trials beside their steps alone."""
        say("\n3. whole epochs (100 steps of 32 sequences of 128; evaluations as the paper's)")
        say("   task   model width pack   ms a model & step, steps alone   whole epoch   steps' share")
        self.figures["epochs"] = []
        sizes = [(8, 4)] if self.toy else [(16, 64), (32, 256), (128, 64)]
        for task in ("cases", "mode"):
            for width, models in sizes:
                if self.time_left(15):
                    self.guarded(f"epochs of {task} {width}", partial(self.whole_epoch, task, width, models))

    def whole_epoch(self, task: str, width: int, models: int) -> None:
        size = {"length": 8, "batch_size": 4, "steps_per_epoch": 5, "eval_samples": 16} if self.toy else {}
        values = {"task": task, "model": "nap", "width": width, "precision": "fp32", "epochs": 4, **size}
        some = [Trial.from_values({**values, "seed": seed % 5}) for seed in range(models)]
        steps = some[0].steps_per_epoch
        alone = self.packed_seconds({**values, "steps_per_epoch": steps}, models, "captured")
        ends = []
        for _ in train(some, str(self.device), Options("off")):
            self.wait()
            ends.append(time.perf_counter())
        whole = (ends[-1] - ends[0]) / (len(ends) - 1) / steps / models
        if alone is not None:
            say(f"   {task:6} nap {width:7} {models:4} {1000 * alone:27.4f} {1000 * whole:18.4f} {alone / whole:12.0%}")
            entry = {"task": task, "width": width, "pack": models, "steps": alone, "whole": whole}
            self.figures["epochs"].append(entry)

    def paper(self) -> None:
        """The whole paper's models at the speeds measured."""
        rates: dict[tuple, Rate] = {}
        for each in self.figures["speeds"]:
            if each["precision"] == "fp32":
                trial = Trial.from_values(self.values(each["model"], each["width"], "fp32"))
                rate = each["seconds"] * trial.steps / trial.training_cost
                key = (trial.mixer, trial.width)
                if key not in rates or rate < rates[key].seconds_per_operation:
                    rates[key] = Rate(*key, trial.length, rate)
        if not rates:
            return say("\n5. nothing was measured: give it more --seconds")
        seconds = count = 0.0
        for trial, times in paper_trials(runs=1 if self.toy else 5):
            rate = min(rates.values(), key=lambda rate: rate.distance(trial))
            seconds += times * trial.cost * rate.seconds_per_operation
            count += times
        say(f"\n5. the paper's {count:,.0f} models, evaluations included: {seconds / 3600:,.1f} hours of this device")
        self.figures["paper"] = {"models": count, "hours": seconds / 3600}

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def paper_trials(runs: int) -> Iterator[tuple[Trial, float]]:
    """The paper's cells, one for all learning rates, and how many models each has."""
    for axis, (tasks, values) in PAPER.items():
        for task in tasks:
            for model in MODELS:
                if axis == "heads" and model in ("sum", "max"):
                    continue
                for value in values:
                    given = {"task": task, "model": model, axis: value}
                    if axis == "batch_size":
                        given["samples_per_epoch"] = 3200
                    if axis == "vocabulary":
                        given |= {"samples_per_class": 400}
                    twice = 2 if axis == "weight_decay" else 1  # dropout's cost the same
                    yield Trial.from_values(given), twice * runs * len(RATES)


def deviation(a: Any, b: Any) -> float:
    """Largest difference of two epochs' losses, relative."""
    losses = [[m.loss for trial in record.measurements for m in trial] for record in (a, b)]
    return max(abs(x - y) / max(abs(y), 1e-3) for x, y in zip(*losses, strict=True))


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
