"""A folder of studies: their union, counted and priced. `sweep plan paper` is all of a paper's sweeps."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.store import Store
from sweep.errors import UsageError
from sweep.estimate import Estimate, Rates, calibrated_rates, h200_rates, measured_rates
from sweep.plan import MOST_TRIALS, finished, found_among
from sweep.study import Study, study_names


@dataclass(frozen=True)
class FolderPlan:
    """The union of studies against a store.

    Attributes:
        name: of the folder.
        sizes: trials by study.
        trials: different trials of all of them: what studies share is run once.
        counts: of these by status.
        missing: without a row.
        estimate, on_gpu: what the missing ones cost on this machine, and on one H200.
    """

    name: str
    sizes: dict[str, int]
    trials: int
    counts: dict[str, int]
    missing: int
    estimate: Estimate
    on_gpu: Estimate

    def as_json(self) -> dict[str, Any]:
        """What `sweep plan FOLDER --json` prints."""
        return {
            "folder": self.name,
            "studies": self.sizes,
            "points": sum(self.sizes.values()),
            "trials": self.trials,
            **self.counts,
            "missing": self.missing,
            "estimate_seconds": self.estimate.seconds,
            "estimate_basis": self.estimate.basis,
            "gpu_seconds": self.on_gpu.seconds,
        }


def studies_in(name: str) -> list[str]:
    """The studies of a folder: names of those that ship, without those of toy size, or paths of a folder's TOML files;
    none where it is no folder."""
    inside = [study for study in study_names() if study.startswith(name.rstrip("/") + "/")]
    shipped = [study for study in inside if not study.endswith("tiny")] or inside
    if shipped or not Path(name).is_dir():
        return shipped
    return sorted(str(path) for path in Path(name).rglob("*.toml"))


def plan_folder(name: str, store: Store, sets: list[str]) -> FolderPlan:
    """The plan of a folder's studies together.

    Raises:
        UsageError: a study that is not right, or too large to expand.
    """
    studies = [Study.load(each, sets) for each in studies_in(name)]
    if not studies:
        raise UsageError(f"{name} is a folder without studies (.toml)")
    for study in studies:
        if study.size > MOST_TRIALS:
            raise UsageError(f"{study.name} has {study.size:,} trials: more than {MOST_TRIALS:,} are not expanded")
    trials = {trial.id: trial for study in studies for trial in study.trials()}
    rows, found = found_among(store, trials)
    missing = [trial for id_, trial in trials.items() if id_ not in found]
    rates = Rates(measured_rates(finished(rows)), calibrated_rates())
    return FolderPlan(
        name=name.rstrip("/"),
        sizes={study.name: study.size for study in studies},
        trials=len(trials),
        counts=dict(Counter(row["status"] for row in found.values())),
        missing=len(missing),
        estimate=rates.estimate(missing),
        on_gpu=Rates([], h200_rates()).estimate(missing),
    )
