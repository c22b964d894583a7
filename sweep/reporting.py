"""From a study and a store to a report, and to a comparison with published results."""

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from results.compare import CompareError, Comparison, compare
from results.curves import Curves
from results.metrics import Metric, metric_of
from results.report import Material, write_report
from results.store import Store
from results.words import format_value
from sweep.errors import UsageError
from sweep.plan import MOST_TRIALS, among, check_identity
from sweep.run import versions
from sweep.show import show_problems
from sweep.study import Study
from sweep.trial import COUPLINGS, Trial
from tasks import TASKS


@dataclass(frozen=True)
class View:
    """How to look at a study.

    Attributes:
        metric: by name.
        x, y, facet: axes; None leaves x and y to the study.
    """

    metric: str = "final_eval_accuracy"
    x: str | None = None
    y: str | None = None
    facet: str | None = None


def material_of(study: Study, store: Store, view: View, command: str) -> Material:
    """What a store has of a study, ready to be drawn.

    Raises:
        UsageError: the study is too large to draw, or has no such axis or metric.
        StoreError: the store cannot be read, or holds other values under an id than the id stands for.
    """
    if study.size > MOST_TRIALS:
        raise UsageError(f"{study.name} has {study.size:,} trials, too many to draw: narrow it with --set")
    trials, points = {}, []
    for point, trial in study.points():
        trials[trial.id] = trial
        points.append({"id": trial.id, **point})
    rows = {row["id"]: row for row in among(store.trials(), trials).to_pylist()}
    show_problems(store.problems)
    if not rows:
        print(f"warning: {store.path} has no trial of {study.name} yet: sweep run {study.given}", file=sys.stderr)
    check_identity(iter(rows.values()), trials)
    cases = cases_of(list(trials.values()))
    metric = _metric(view.metric, cases)
    x, y, facet = _axes(study, view)
    trivial = guessing(list(trials.values()), metric)
    made = versions()
    return Material(
        title=study.title,
        points=points,
        rows=rows,
        x=x,
        y=y,
        facet=facet,
        metric=metric,
        description=[study.description.strip()] if study.description else [],
        cases=cases,
        chance=trivial[1] if trivial else None,
        trivial=trivial[0] if trivial else "",
        curves=Curves(store.curves(rows, encoded=True), rows),
        facts={
            "Command": command,
            "Study": study.name + (f" with --set {' --set '.join(study.sets)}" if study.sets else ""),
            "Report made by": f"sweep {made['sweep_version']}, commit {made['git_commit'] or 'unknown'}, "
            f"Python {platform.python_version()}",
            "The study's file": study.text,
        },
        problems=store.problems,
    )


def write_study_report(material: Material, out: Path, animated: bool = False) -> Path:
    """Writes a report and returns its page. Raises UsageError where it cannot be written."""
    try:
        return write_report(out, material, animated)
    except OSError as error:
        raise UsageError(f"cannot write the report to {out}: {error.strerror or error}") from None


def comparison_of(material: Material, published: pa.Table, study: Study) -> Comparison:
    """A study's cells beside published ones, with what differs from the paper's trials. Raises CompareError."""
    task = study.fixed.get("task")
    if task is None:
        raise CompareError("published cells are of one task, and the study sweeps several: --set task=…")
    return compare(material.cells(), published, str(task), unlike_the_papers(material, study))


def unlike_the_papers(material: Material, study: Study) -> list[str]:
    """In words, the sizes in which a study's trials are not those of the paper, axes aside."""
    some = Trial.from_values({"task": study.fixed["task"], "model": "nap"})
    names = ("length", "vocabulary", "depth", "width", "heads", "batch_size", "epochs", "steps_per_epoch", "positions",
             "position_scale", "causal", "weight_decay", "dropout", "init_scale", "case_bias",
             "eval_samples")  # fmt: skip
    differing = []
    for name in names:
        found: set[Any] = {row.get(name) for row in material.rows.values()} - {None}
        if name == "steps_per_epoch" and any(coupling in study.fixed for coupling in COUPLINGS):
            continue  # it follows, as in the paper
        if name not in study.swept and found and found != {getattr(some, name)}:
            values = " and ".join(format_value(value) for value in sorted(found))
            differing.append(f"{name.replace('_', ' ')} {values} (published: {getattr(some, name)})")
    return [f"These are not the paper's trials: {', '.join(differing)}."] if differing else []


def cases_of(trials: Sequence[Trial]) -> tuple[str, ...]:
    """The cases by which all trials were judged; none where they differ, or were not."""
    found = {TASKS[trial.task].cases if trial.samples_per_case else () for trial in trials}
    return tuple(found.pop()) if len(found) == 1 else ()


def guessing(trials: Sequence[Trial], metric: Metric) -> tuple[str, float] | None:
    """The best trivial answer to the sequences of a metric, and its accuracy; None for losses and single cases, and
    where trials differ in what decides it."""
    if metric.kind != "accuracy" or metric.case != "all":
        return None
    kinds = {(trial.task, trial.pairs, trial.values, getattr(trial, metric.at), trial.vocabulary) for trial in trials}
    if len(kinds) != 1:
        return None
    return trials[0].generator.baseline(getattr(trials[0], metric.at), trials[0].vocabulary)


def _metric(name: str, cases: Sequence[str]) -> Metric:
    try:
        return metric_of(name, cases)
    except ValueError as error:
        raise UsageError(f"--metric {name}: {error}") from None


def _axes(study: Study, view: View) -> tuple[str | None, str | None, str | None]:
    """The axes to draw. Raises UsageError for one that the study does not sweep, and for one that is given twice."""
    for option in ("x", "y", "facet"):
        name = getattr(view, option)
        if name is not None and name not in study.swept:
            swept = ", ".join(study.swept) or "nothing but models and seeds"
            raise UsageError(f"--{option} {name}: {study.name} sweeps {swept}")
    x = view.x or (study.x if study.x not in (view.y, view.facet) else None)
    y = view.y or (study.y if study.y not in (x, view.facet) else None)
    asked = [name for name in (x, y, view.facet) if name is not None]
    if len(set(asked)) < len(asked):
        raise UsageError(f"--x, --y and --facet: {', '.join(asked)} has an axis twice")
    return x, y, view.facet
