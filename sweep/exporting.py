"""Taking a study's results elsewhere."""

from collections.abc import Iterator
from pathlib import Path

from results.export import ExportError, to_csv, to_optuna, to_parquet
from results.store import Store
from results.words import counted
from sweep.errors import UsageError
from sweep.plan import MOST_TRIALS, among
from sweep.show import show_problems
from sweep.study import Study


def export_study(
    study: Study, store: Store, csv: Path | None, parquet: Path | None, optuna: str | None, metric: str
) -> Iterator[str]:
    """Writes what a store has of a study to what is not None; yields a line about each.

    Raises:
        UsageError: the study is too large, nothing of it is there, or it cannot be written there.
    """
    if study.size > MOST_TRIALS:
        raise UsageError(f"{study.name} has {study.size:,} trials, too many to export: narrow it with --set")
    points = [{"id": trial.id, **point} for point, trial in study.points()]
    trials = among(store.trials(), {point["id"] for point in points})
    show_problems(store.problems)
    if not trials.num_rows:
        raise UsageError(f"{store.path} has no trial of {study.name} yet: sweep run {study.given}")
    if optuna is not None:  # first what may be refused: nothing is to be left behind
        try:
            curves = store.curves(trials["id"].to_pylist())
            for done in to_optuna(optuna, study.name, points, trials, curves, metric):
                there = f" (and {done.present:,} there before)" if done.present else ""
                yield f"{done.study}: {counted(done.added, 'trial')}{there}"
        except ExportError as error:
            raise UsageError(f"--optuna: {error}") from None
    for path, write in ((csv, to_csv), (parquet, to_parquet)):
        if path is not None:
            try:
                write(trials, path)
            except OSError as error:
                raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
            yield f"{path}: {counted(trials.num_rows, 'trial')}"
