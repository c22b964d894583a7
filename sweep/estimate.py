"""What the missing trials of a study will cost, and what that is based on."""

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from models.cache import user_cache
from sweep.trial import Trial

MEASURED = "measured trials of this store"
CALIBRATED = "this machine's calibration (sweep bench)"

USUAL_SECONDS = 7e-12
"""Seconds for each operation of `Trial.cost` on a CPU core: the bound of a pack's time where nothing was measured."""


@dataclass(frozen=True)
class Rate:
    """Seconds that trials of one kind took for each of their operations (`Trial.cost`), on one worker."""

    mixer: str
    width: int
    length: int
    seconds_per_operation: float

    def distance(self, trial: Trial) -> float:
        """How unlike this a trial is: another mixer is worse than any other size."""
        sizes = abs(math.log2(self.width / trial.width)) + abs(math.log2(self.length / trial.length))
        return sizes + (100 if self.mixer != trial.mixer else 0)


@dataclass(frozen=True)
class Estimate:
    """Seconds of one worker, or None where nothing is known; and the basis in words."""

    seconds: float | None
    basis: str


class Rates:
    """What is known of the time that trials take: this store's own, and this machine's calibration."""

    def __init__(self, measured: list[Rate], calibrated: list[Rate]):
        self.measured, self.calibrated = measured, calibrated
        self.nearest: dict[tuple, Rate] = {}

    def rate(self, trial: Trial) -> Rate | None:
        """That of the most alike; None where nothing is known."""
        if not self.measured and not self.calibrated:
            return None
        kind = (trial.mixer, trial.width, trial.length)
        if kind not in self.nearest:
            self.nearest[kind] = min((*self.measured, *self.calibrated), key=lambda rate: rate.distance(trial))
        return self.nearest[kind]

    def seconds(self, trial: Trial) -> float:
        """What a trial takes on one worker; where nothing is known, what it took where this was written."""
        rate = self.rate(trial)
        return trial.cost * (rate.seconds_per_operation if rate else USUAL_SECONDS)

    def estimate(self, trials: Iterable[Trial]) -> Estimate:
        """The cost of `trials`: each by the most alike."""
        if not self.measured and not self.calibrated:
            return Estimate(None, "none: no finished trial in this store, and no calibration (run `sweep bench`)")
        seconds, used = 0.0, Counter[str]()
        for trial in trials:
            seconds += self.seconds(trial)
            used[MEASURED if self.rate(trial) in self.measured else CALIBRATED] += 1
        if len(used) == 1:
            return Estimate(seconds, next(iter(used)))
        return Estimate(seconds, " and ".join(f"{basis} (for {count:,} trials)" for basis, count in used.items()))


def measured_rates(finished: Iterable[tuple[Trial, float]]) -> list[Rate]:
    """One rate for each mixer, width and length among finished trials and the seconds each took."""
    sums: dict[tuple, list[float]] = {}
    for trial, seconds in finished:
        total = sums.setdefault((trial.mixer, trial.width, trial.length), [0.0, 0.0])
        total[0] += seconds
        total[1] += trial.cost
    return [Rate(mixer, width, length, seconds / cost) for (mixer, width, length), (seconds, cost) in sums.items()]


H200 = {
    ("nap", 32): 0.159, ("softmax", 32): 0.234, ("sum", 32): 0.129,
    ("nap", 128): 0.653, ("softmax", 128): 0.606, ("sum", 128): 0.521,
    ("nap", 512): 4.90, ("softmax", 512): 5.29, ("sum", 512): 5.19,
}  # fmt: skip
"""Milliseconds of a model's step of `cases` at length 128 and batch 32 on one H200, in wide packs, captured and not
compiled (docs/performance.md)."""

H200_STEPS_SHARE = 0.64
"""Share of an epoch's time there that is steps, as measured; the rest is drawing and evaluation."""

_ALIKE = {"non": "nap", "max": "sum", "mean": "sum", "none": "sum"}
"""Mixers without a measurement of their own, and the one they are most like."""


def h200_rates() -> list[Rate]:
    """Rates on one H200, of trials with the evaluations of `cases`; nothing is known of other shapes there."""
    rates = []
    for (mixer, width), milliseconds in H200.items():
        trial = Trial.from_values({"task": "cases", "mixer": mixer, "width": width})
        seconds = milliseconds / 1000 * trial.steps / H200_STEPS_SHARE
        names = [mixer, *(name for name, alike in _ALIKE.items() if alike == mixer)]
        rates += [Rate(name, width, trial.length, seconds / trial.cost) for name in names]
    return rates


def calibration_path() -> Path:
    """Where `sweep bench` keeps what it measured of this machine."""
    return user_cache() / "calibration.json"


def calibrated_rates() -> list[Rate]:
    """The rates that `sweep bench` measured on this machine; none where it has not run or its file cannot be read."""
    try:
        return [Rate(**entry) for entry in json.loads(calibration_path().read_text())["rates"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
