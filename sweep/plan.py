"""What a study has, what of it is done, and what is left to do. Reads the store, writes nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from results import StoreError
from results.schema import RESULTS, STATUSES
from results.store import Store
from results.words import plural
from sweep.errors import UsageError
from sweep.estimate import Estimate, Rates, calibrated_rates, measured_rates
from sweep.packs import packs_of
from sweep.study import Study
from sweep.trial import FIELDS, Trial

MOST_TRIALS = 100_000
"""Trials beyond which a study is counted but not expanded, unless --max-trials says otherwise."""

MOST_MEASURED = 2_000
"""Finished trials that an estimate looks at."""


@dataclass(frozen=True)
class Plan:
    """A study against a store.

    Attributes:
        study, trials: the study and how many trials it has.
        counts: trials by status.
        to_run: the trials that a run would train; None where the study is too large to expand.
        packs: how they would train together; None likewise.
        attempts: for trials with a row, the number of their last attempt.
        estimate: what running them costs.
        others: trials in the store that are not the study's.
        problems: bad shards of the store.
    """

    study: Study
    trials: int
    counts: dict[str, int]
    to_run: list[Trial] | None
    packs: list[list[Trial]] | None
    attempts: dict[str, int]
    estimate: Estimate
    others: int
    problems: list[str] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """Trials without a row."""
        return self.trials - sum(self.counts.values())

    @property
    def failed(self) -> int:
        """Trials that failed or ran out of memory."""
        return self.counts.get("failed", 0) + self.counts.get("oom", 0)

    def cut_again(self, width: int | None, memory: int | None, workers: int) -> "Plan":
        """The plan with its packs cut for other devices; see `packs.packs_of`."""
        return replace(self, packs=packs_of(self.to_run or [], width, memory, workers))

    def as_json(self) -> dict[str, Any]:
        """What `sweep plan --json` prints."""
        return {
            **status_json(self.study, self.trials, self.counts, self.problems),
            "packs": None if self.packs is None else len(self.packs),
            "estimate_seconds": self.estimate.seconds,
            "estimate_basis": self.estimate.basis,
            "other_trials_in_store": self.others,
            "derived": derived(self.to_run or []),
        }


def make_plan(
    study: Study,
    store: Store,
    *,
    retry_failed: bool = False,
    max_trials: int = MOST_TRIALS,
    pack_width: int | None = None,
    workers: int = 1,
    memory: int | None = None,
) -> Plan:
    """The plan of a study on a store; packs are cut as `packs.packs_of` says.

    Raises:
        StoreError: the store is of a newer version, or no store.
    """
    trials = study.size
    if trials > max_trials:
        counts, others = _counts_by_value(study, store)
        unknown = Estimate(None, f"none: more than --max-trials {max_trials:,} to expand")
        return Plan(study, trials, counts, None, None, {}, unknown, others, store.problems)
    planned = {trial.id: trial for trial in study.trials()}
    rows, found = found_among(store, planned)
    counts, to_run = Counter(row["status"] for row in found.values()), []
    for trial in planned.values():
        row = found.get(trial.id)
        if row is None or (retry_failed and row["status"] not in RESULTS):
            to_run.append(trial)
    attempts = {id_: row["attempt"] or 0 for id_, row in found.items()}
    measured = measured_rates(finished(rows)) if to_run else []
    rates = Rates(measured, calibrated_rates())
    cost = rates.estimate(to_run) if to_run else Estimate(0.0, "nothing to run")
    packs = packs_of(to_run, pack_width, memory, workers, rates.seconds)
    others = len(rows) - len(found)
    return Plan(study, trials, dict(counts), to_run, packs, attempts, cost, others, store.problems)


def status_json(study: Study, trials: int, counts: dict[str, int], problems: list[str]) -> dict[str, Any]:
    """What `sweep status --json` prints: the study, how many trials it has, how many of them have which status, and the
    store's bad shards."""
    by_status = {status: counts.get(status, 0) for status in STATUSES}
    missing = trials - sum(counts.values())
    return {"study": study.name, "trials": trials, **by_status, "missing": missing, "problems": problems}


def derived(trials: Iterable[Trial]) -> dict[str, list[str]]:
    """What follows from a study's values, by name: "batch_size 8 → 400 steps an epoch", each once."""
    lines: dict[str, dict[str, None]] = {}
    for trial in {trial.shape: trial for trial in trials}.values():
        steps = f"batch_size {trial.batch_size}, vocabulary {trial.vocabulary} → {trial.steps_per_epoch:,} an epoch"
        for name, line in {
            "steps": f"{steps}, {trial.steps:,} in all",
            "evaluation length": f"length {trial.length} → {trial.eval_length}",
            "feed-forward width": f"width {trial.width}, {trial.feed_forward} → {trial.network.hidden_width:,}",
        }.items():
            lines.setdefault(name, {})[line] = None
    return {name: list(found) for name, found in lines.items()}


def status_counts(study: Study, store: Store, max_trials: int = MOST_TRIALS) -> dict[str, int]:
    """How many of a study's trials have which status."""
    if study.size > max_trials:
        return _counts_by_value(study, store)[0]
    statuses = among(store.trials(["id", "status"]), study.ids())["status"]
    return dict(Counter(statuses.to_pylist()))


def found_among(store: Store, trials: Mapping[str, Trial]) -> tuple[pa.Table, dict[str, dict[str, Any]]]:
    """What a plan reads of a store: of all its trials, and of those of `trials` that it has, by id.

    Raises StoreError where the store has other values under an id.
    """
    rows = store.trials(["id", "status", "attempt", "wall_seconds", *FIELDS])
    found = {row["id"]: row for row in among(rows, trials).to_pylist()}
    check_identity(found.values(), trials)
    return rows, found


def among(rows: pa.Table, ids: Iterable[str]) -> pa.Table:
    """Those of a store's rows that have one of these ids."""
    return rows.filter(pc.is_in(rows["id"], pa.array(ids, pa.string())))


def finished(rows: pa.Table) -> Iterator[tuple[Trial, float]]:
    """Some finished trials among a store's rows, evenly spread, and the seconds each took."""
    measured = pc.and_(pc.equal(rows["status"], "ok"), pc.greater(rows["wall_seconds"], 0))
    numbers = pc.indices_nonzero(pc.fill_null(measured, False))
    for row in rows.take(numbers[:: max(len(numbers) // MOST_MEASURED, 1)]).to_pylist():
        yield Trial.from_row(row), row["wall_seconds"]


def _counts_by_value(study: Study, store: Store) -> tuple[dict[str, int], int]:
    """Counts of a study that is too large to expand: by looking at which of the store's trials it has."""
    rows = store.trials(["status", *FIELDS]).to_pylist()
    counts = Counter(row["status"] for row in rows if Trial.from_row(row) in study)
    return dict(counts), len(rows) - sum(counts.values())


def check_identity(rows: Iterable[Mapping[str, Any]], trials: Mapping[str, Trial]) -> None:
    """Law 1's last line: what the store has under an id must be that very trial.

    Raises:
        StoreError: a row's values are not those that its id stands for.
    """
    for row in rows:
        trial = trials.get(row["id"])
        if trial is not None and not _is_stored_as(row, trial) and Trial.from_row(row) != trial:
            stored = Trial.from_row(row).as_dict()
            differing = [name for name, value in trial.as_dict().items() if stored[name] != value]
            raise StoreError(
                f"trial {row['id']} is stored with another {', '.join(differing)} than its id stands for: "
                "the store was written by a version of sweep that does not agree on ids"
            )


def _is_stored_as(row: Mapping[str, Any], trial: Trial) -> bool:
    """Whether a row has the very values of a trial; where it leaves out defaults it does not, and may still be its."""
    return all(row.get(name) == getattr(trial, name) for name in FIELDS)


def product_line(study: Study) -> list[str]:
    """The study's counts as products, a line a block: "6 models × 8 widths × 10 learning rates × 5 seeds = 2,400"."""
    return [
        " × ".join(f"{len(values):,} {plural(name, len(values))}" for name, values in grid.axes.items())
        + f" = {prod(map(len, grid.axes.values())):,}"
        for grid in study.grids
    ]


def check_size(plan: Plan, max_trials: int) -> None:
    """Raises UsageError where a study is too large to run."""
    if plan.to_run is None:
        raise UsageError(
            f"{plan.study.name} has {plan.trials:,} trials, more than --max-trials {max_trials:,}: "
            "narrow it with --set, or raise --max-trials"
        )
