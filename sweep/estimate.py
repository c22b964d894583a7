"""What the missing trials of a study will cost, and what that is based on."""

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.trial import Trial


@dataclass(frozen=True)
class Rate:
    """Seconds a trial of one kind took for each of its operations, on one worker."""

    mixer: str
    width: int
    length: int
    seconds_per_flop: float

    def distance(self, trial: Trial) -> float:
        """How unlike this a trial is: another mixer is worse than any other size."""
        sizes = abs(math.log2(self.width / trial.width)) + abs(math.log2(self.length / trial.length))
        return sizes + (100 if self.mixer != trial.mixer else 0)


@dataclass(frozen=True)
class Estimate:
    """Seconds of one worker, or None where nothing is known; and the basis in words."""

    seconds: float | None
    basis: str


def estimate(trials: Iterable[Trial], measured: list[Rate], calibrated: list[Rate]) -> Estimate:
    """The cost of training `trials`, from this store's own trials if there are any, else from this machine's
    calibration."""
    rates = measured or calibrated
    if not rates:
        return Estimate(None, "none: no finished trial in this store, and no calibration (run `sweep bench`)")
    nearest: dict[tuple, Rate] = {}
    seconds = 0.0
    for trial in trials:
        key = (trial.mixer, trial.width, trial.length)
        if key not in nearest:
            nearest[key] = min(rates, key=lambda rate: rate.distance(trial))
        seconds += trial.train_flops * nearest[key].seconds_per_flop
    basis = "measured trials of this store" if measured else "this machine's calibration (sweep bench)"
    return Estimate(seconds, basis)


def measured_rates(rows: Iterable[Mapping[str, Any]]) -> list[Rate]:
    """One rate for each mixer, width and length among finished rows (mixer, width, length, wall_seconds,
    train_flops)."""
    sums: dict[tuple, list[float]] = {}
    for row in rows:
        if row["wall_seconds"] and row["train_flops"]:
            total = sums.setdefault((row["mixer"], row["width"], row["length"]), [0.0, 0.0])
            total[0] += row["wall_seconds"]
            total[1] += row["train_flops"]
    return [Rate(mixer, width, length, seconds / flops) for (mixer, width, length), (seconds, flops) in sums.items()]


def calibration_path() -> Path:
    """Where `sweep bench` keeps what it measured of this machine."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "sweep" / "calibration.json"


def calibrated_rates() -> list[Rate]:
    """The rates that `sweep bench` measured on this machine; none where it has not run or its file cannot be read."""
    try:
        return [Rate(**entry) for entry in json.loads(calibration_path().read_text())["rates"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
