"""A study's results for other tools: one CSV, one Parquet file, or Optuna studies in a database.

Every function is handed the rows of the study alone, each trial once, as `Store.trials` reads them.
"""

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from results.axes import lay_out
from results.files import save_atomically
from results.optuna_tables import add_trials
from results.schema import OUTCOME, RESULTS, TRIALS
from results.shards import to_table, write_shard

if TYPE_CHECKING:  # it takes a second to load
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial

METRICS = tuple(name for name, _ in OUTCOME if name.endswith(("_accuracy", "_loss")))
"""Columns that an Optuna study can have as its value: accuracies are maximised, losses minimised."""

NO_PARAMETERS = ("id", "model", "seed")
"""What a point has beside the values of its axes."""

ATTRIBUTES = ("id", "seed", "status", "attempt", "diverged_step", "error")
"""Columns that an Optuna trial keeps as user attributes, where they are not null."""


class ExportError(Exception):
    """What was asked for cannot be written there; the message is one line for its user."""


class Exported(NamedTuple):
    """What an export did to one Optuna study."""

    study: str  # its name: STUDY/MODEL
    added: int  # trials added now
    present: int  # trials that it had already


def to_csv(trials: pa.Table, path: Path) -> None:
    """Saves rows as CSV (RFC 4180, in UTF-8), atomically: the names of the columns, then a line a trial.

    Null is an empty field; true and false, times in ISO 8601, and floats with the digits that give them back exactly.

    Raises: OSError.
    """
    save_atomically(path, lambda file: _write_csv(trials, file))


def to_parquet(trials: pa.Table, path: Path) -> None:
    """Saves rows as one Parquet file of results.schema.TRIALS, its version included, atomically.

    Raises: OSError; ValueError for a column that the schema lacks.
    """
    rows = to_table(trials, TRIALS)
    save_atomically(path, lambda file: write_shard(file, [rows], TRIALS))


def to_optuna(
    url: str,
    name: str,
    points: Sequence[Mapping[str, Any]],
    trials: pa.Table,
    curves: pa.Table,
    metric: str = "final_eval_accuracy",
) -> list[Exported]:
    """Adds a study's trials to Optuna studies in a database, one for each model, named "NAME/MODEL".

    Exporting again adds what is not there yet, by trial id: nothing comes twice, and a trial that had failed gets its
    result beside the failure (Optuna changes no finished trial). Interrupted, it is finished by running it again.

    The axes are parameters; a seed is an attribute, because nobody should tune one: trials of a cell are repeats of one
    point. `ok` becomes COMPLETE with the metric as its value. `diverged` becomes PRUNED, which to Optuna is a result
    without a value that is worse than any other, and keeps its intermediate values. `failed` and `oom` become FAIL,
    and so does `ok` where the metric is null. The metric's curve becomes the intermediate values, its step the epoch.

    Args:
        url: as SQLAlchemy takes it: sqlite:///file.db, postgresql://…
        points: the study's points, {"id": …, "model": …, "seed": …, <axis>: …}. Of points that are one trial of one
            model, the first counts. An axis that a trial has no use for (null in its row) is no parameter of it.
        trials, curves: rows of results.schema.TRIALS and of CURVES.
        metric: one of METRICS.

    Raises:
        ExportError: no such metric; a database that cannot be used; an Optuna study of that name which is none of ours
            or whose parameters had other choices.
    """
    if metric not in METRICS:
        raise ExportError(f"cannot export {metric}: one of {', '.join(METRICS)}")
    rows = {row["id"]: row for row in trials.to_pylist()}
    measured = _measurements(curves, rows, metric)
    planned: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for point in points:
        planned[point["model"]].append(point)
    with _plain_errors(url):
        from optuna.storages import RDBStorage

        storage = RDBStorage(url)
        return [
            _export_model(storage, _opened(storage, f"{name}/{model}", metric), members, rows, measured, metric)
            for model, members in planned.items()
        ]


def _write_csv(trials: pa.Table, file: BinaryIO) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(trials.column_names)
    for batch in trials.to_batches(max_chunksize=10_000):
        writer.writerows(zip(*(map(_field, column.to_pylist()) for column in batch.columns), strict=True))
    text.detach()  # flushes it and leaves the file open


def _field(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if hasattr(value, "isoformat") else value


def _measurements(curves: pa.Table, rows: Mapping[str, Mapping], metric: str) -> dict[str, dict[int, float]]:
    """The metric after each epoch, by trial, on the sequences that the metric is measured on."""
    _, split, kind = metric.split("_")
    measured_at = "eval_length" if split == "eval" else "length"
    lengths = {id_: row[measured_at] for id_, row in rows.items()}
    kept = curves.filter((pc.field("split") == split) & (pc.field("case") == "all") & (pc.field("count") > 0))
    value = kept["loss"] if kind == "loss" else pc.divide(kept["correct"].cast(pa.float64()), kept["count"])
    measured: dict[str, dict[int, float]] = defaultdict(dict)
    columns = (column.to_pylist() for column in (kept["id"], kept["length"], kept["epoch"], value))
    for id_, length, epoch, value in zip(*columns, strict=True):
        if lengths.get(id_) == length and value is not None:
            measured[id_][epoch] = value
    return measured


def _opened(storage: "RDBStorage", name: str, metric: str) -> "Study":
    """The Optuna study of that name, made where it is not there.

    Raises: ExportError where it has another goal than the metric's.
    """
    import optuna

    direction: Literal["maximize", "minimize"] = "maximize" if metric.endswith("_accuracy") else "minimize"
    study = optuna.create_study(storage=storage, study_name=name, direction=direction, load_if_exists=True)
    stored_metric = study.user_attrs.get("metric")
    if not study.get_trials(deepcopy=False) and stored_metric is None:
        study.set_user_attr("metric", metric)
    elif stored_metric != metric:
        stored = f"has {stored_metric} as its value" if stored_metric else "was not exported by sweep"
        raise ExportError(f"the Optuna study {name} {stored}: export {metric} to another database")
    return study


def _export_model(
    storage: "RDBStorage",
    study: "Study",
    points: Sequence[Mapping[str, Any]],
    rows: Mapping[str, Mapping[str, Any]],
    measured: Mapping[str, dict[int, float]],
    metric: str,
) -> Exported:
    """Adds the trials of one model that its Optuna study does not have."""
    from optuna.trial import TrialState

    there = study.get_trials(deepcopy=False)
    settled = {trial.user_attrs.get("id") for trial in there if trial.state != TrialState.FAIL}
    failed = {trial.user_attrs.get("id") for trial in there} - settled
    distributions = _distributions(study, points, there)
    firsts: dict[str, Mapping[str, Any]] = {}
    for point in points:
        firsts.setdefault(point["id"], point)
    added = []
    for id_, point in firsts.items():
        row = rows.get(id_)
        if row is None or id_ in settled or (id_ in failed and row["status"] not in RESULTS):
            continue
        added.append(_frozen(point, row, distributions, measured.get(id_, {}), metric))
    add_trials(storage, study.study_name, added)
    return Exported(study.study_name, len(added), len(settled | failed))


def _frozen(
    point: Mapping[str, Any],
    row: Mapping[str, Any],
    distributions: Mapping[str, "BaseDistribution"],
    measured: dict[int, float],
    metric: str,
) -> "FrozenTrial":
    """A row as Optuna's finished trial."""
    from optuna.trial import TrialState, create_trial

    value = row[metric] if row["status"] == "ok" else None
    complete = value is not None and math.isfinite(value)
    state = TrialState.COMPLETE if complete else TrialState.FAIL
    if row["status"] == "diverged":
        state = TrialState.PRUNED
    used = {axis: point[axis] for axis in distributions if _has(point, row, axis)}
    trial = create_trial(
        state=state,
        value=value if complete else None,
        params=used,
        distributions={axis: distributions[axis] for axis in used},
        user_attrs={name: row[name] for name in ATTRIBUTES if row[name] is not None},
        intermediate_values=measured,
    )
    if row["finished_at"] is not None:  # Optuna's times are local and do not say so
        trial.datetime_complete = row["finished_at"].astimezone().replace(tzinfo=None)
        trial.datetime_start = trial.datetime_complete - timedelta(seconds=row["wall_seconds"] or 0.0)
    return trial


def _has(point: Mapping[str, Any], row: Mapping[str, Any], axis: str) -> bool:
    """Whether a trial has a value on an axis. Some axes are no column: what others follow from."""
    return point.get(axis) is not None and row.get(axis, point[axis]) is not None


def _distributions(
    study: "Study", points: Sequence[Mapping[str, Any]], there: Sequence["FrozenTrial"]
) -> dict[str, "BaseDistribution"]:
    """What Optuna wants to know of each axis: the values that a model's points have on it.

    Raises: ExportError where Optuna cannot add values to those that trials had which are there already.
    """
    earlier = {axis: distribution for trial in there for axis, distribution in trial.distributions.items()}
    found = {}
    for axis in dict.fromkeys(axis for point in points for axis in point if axis not in NO_PARAMETERS):
        values = list(dict.fromkeys(point[axis] for point in points if point.get(axis) is not None))
        if strange := [str(value) for value in values if _is_strange(value, earlier.get(axis))]:
            raise ExportError(
                f"the Optuna study {study.study_name} knows no {axis} {', '.join(strange)}, and Optuna does not allow "
                "to add it: export to another database"
            )
        if values:
            found[axis] = _distribution(values, earlier.get(axis))
    return found


def _is_strange(value: Any, before: Any) -> bool:
    """Whether a value cannot join an axis that had the distribution `before`, if any: another choice, or 0 on a log
    scale."""
    return (
        value not in before.choices if hasattr(before, "choices") else before is not None and before.log and value <= 0
    )


def _distribution(values: Sequence[Any], before: Any) -> "BaseDistribution":
    """The distribution that some values come from, of the same choices or on the same scale as `before`."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if any(isinstance(value, bool | str) for value in values):
        return before or CategoricalDistribution(values)
    log = before.log if before is not None else lay_out(sorted(values)).scale == "log"
    kind = FloatDistribution if any(isinstance(value, float) for value in values) else IntDistribution
    return kind(min(values), max(values), log=log)


@contextmanager
def _plain_errors(url: str) -> Iterator[None]:
    """Optuna without its log, and what is wrong with a database in one line that hides its password."""
    import optuna
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    shown = url
    try:
        shown = make_url(url).render_as_string()
        yield
    except (SQLAlchemyError, optuna.exceptions.OptunaError, ImportError, RuntimeError) as error:
        raise ExportError(f"cannot export to {shown}: {str(error).splitlines()[0]}") from error
    finally:
        optuna.logging.set_verbosity(verbosity)
