"""From a study and a store to a report."""

import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from results.report import write_report
from results.store import Store
from sweep.errors import UsageError
from sweep.plan import MOST_TRIALS, check_identity
from sweep.run import versions
from sweep.show import show_problems
from sweep.study import Study
from sweep.trial import Trial
from tasks import TASKS


def write_study_report(study: Study, store: Store, out: Path, command: str) -> Path:
    """Writes the report of what a store has of a study; returns its page.

    Raises:
        UsageError: the study is too large to draw.
        StoreError: the store cannot be read, or holds other values under an id than the id stands for.
    """
    if study.size > MOST_TRIALS:
        raise UsageError(f"{study.name} has {study.size:,} trials, too many to draw: narrow it with --set")
    trials, points = {}, []
    for point, trial in study.points():
        trials[trial.id] = trial
        points.append({"id": trial.id, **point})
    rows = {row["id"]: row for row in store.trials().to_pylist() if row["id"] in trials}
    show_problems(store.problems)
    if not rows:
        print(f"warning: {store.path} has no trial of {study.name} yet: sweep run {study.given}", file=sys.stderr)
    check_identity(iter(rows.values()), trials)
    made = versions()
    facts = {
        "Command": command,
        "Study": study.name + (f" with --set {' --set '.join(study.sets)}" if study.sets else ""),
        "Report made by": f"sweep {made['sweep_version']}, commit {made['git_commit'] or 'unknown'}, "
        f"Python {platform.python_version()}",
        "The study's file": study.text,
    }
    try:
        return write_report(
            out,
            title=study.title,
            description=[study.description.strip()] if study.description else [],
            points=points,
            rows=rows,
            x=study.x,
            y=study.y,
            chance=guessing(list(trials.values())),
            facts=facts,
            problems=store.problems,
            curves=store.curves,
        )
    except OSError as error:
        raise UsageError(f"cannot write the report to {out}: {error.strerror or error}") from None


def guessing(trials: Sequence[Trial]) -> float | None:
    """Accuracy of the best constant answer at the evaluation length; None where trials differ in what decides it."""
    kinds = {(trial.task, trial.eval_length, trial.vocabulary) for trial in trials}
    if len(kinds) != 1:
        return None
    ((task, length, vocabulary),) = kinds
    return TASKS[task].best_constant(length, vocabulary)
