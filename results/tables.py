"""From rows to tables: pure functions, so that every number in a figure or a report can be checked without drawing.

A study hands over its *points*, one dict a trial as the study sees it: `{"id": …, "model": …, "seed": …, <axis>: …}`,
and the store's rows by id. A point without a row is missing; that is not a failure, a divergence or a zero, and the
four are counted apart everywhere.
"""

import csv
import io
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from results.files import save_text
from results.schema import OUTCOME, STATUSES

Value = Any
"""A value of an axis: a number or a string, None or a bool."""
Table = list[dict[str, Any]]

METRICS = tuple(name for name, _ in OUTCOME if name.endswith("_accuracy"))
"""What a cell can show. Accuracies alone: in a score a diverged run counts as 0, which as a loss would be perfect."""

CLOSE = 0.05
"""How far below the best cell of any model a cell may be and still count as close to it: 5 points of accuracy."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The trials of one model at one place of the figure: those that differ in their seed, and in the averaged axes."""

    model: str
    x: Value
    y: Value
    values: tuple[float, ...]  # the metric of each ok run, in the order of the points
    seeds: tuple[int | None, ...]  # their seeds
    ids: tuple[str, ...]  # and their ids
    n_planned: int
    n_ok: int
    n_diverged: int
    n_failed: int  # failed or out of memory
    n_missing: int  # planned and without a row
    n_unmeasured: int  # ok, and yet without a finite value of the metric
    mean: float | None  # over the ok runs
    sd: float | None  # sample standard deviation over the ok runs, from two on
    score: float | None  # mean over the results, a diverged run counting as 0

    @property
    def state(self) -> str:
        """What there is to show: measured (it has a mean), else diverged, unmeasured, failed or missing."""
        if self.mean is not None:
            return "measured"
        for state in ("diverged", "unmeasured", "failed"):
            if getattr(self, f"n_{state}"):
                return state
        return "missing"


@dataclass(frozen=True)
class Cells:
    """The cells of a study in its own order, and the axes they lie on."""

    x: str | None
    y: str | None
    metric: str
    models: tuple[str, ...]
    x_values: tuple[Value, ...]  # ascending where they are numbers, else in the study's order
    y_values: tuple[Value, ...]
    averaged_axes: tuple[str, ...]  # further axes of the study: a cell holds the runs of all their values
    cells: tuple[Cell, ...]

    def table(self) -> Table:
        """One dict a cell, the axes under their own names."""
        places = [(name, key) for name, key in ((self.x, "x"), (self.y, "y")) if name is not None]
        others = [field.name for field in fields(Cell) if field.name not in ("model", "x", "y")]
        return [
            {"model": cell.model}
            | {name: getattr(cell, key) for name, key in places}
            | {name: getattr(cell, name) for name in others}
            for cell in self.cells
        ]


def cells(
    points: Sequence[Mapping[str, Value]],
    rows: Mapping[str, Mapping[str, Any]],
    x: str | None,
    y: str | None,
    metric: str = "final_eval_accuracy",
) -> Cells:
    """The cells of a study: one for each model and pair of an x and a y value that the study plans.

    Without an axis (None) there is a single column or row, at None. What the study varies beyond model, seed, x and y
    is averaged within a cell, and named in `averaged_axes`.

    Raises: ValueError for a metric that is no accuracy, and for an axis that the points do not have.
    """
    if metric not in METRICS:
        raise ValueError(f"cannot show {metric!r}: one of {', '.join(METRICS)}")
    for axis in (x, y):
        if axis is not None and points and not any(axis in point for point in points):
            names = sorted(set().union(*points) - {"id"})
            raise ValueError(f"no axis {axis!r} in this study: one of {', '.join(names)}")

    places: dict[tuple, list[Mapping]] = defaultdict(list)
    for point in points:
        places[point["model"], x and point.get(x), y and point.get(y)].append(point)
    return Cells(
        x=x,
        y=y,
        metric=metric,
        models=tuple(dict.fromkeys(point["model"] for point in points)),
        x_values=_in_order(x_value for _, x_value, _ in places),
        y_values=_in_order(y_value for _, _, y_value in places),
        averaged_axes=_averaged_axes(points, {"id", "model", "seed", x, y}),
        cells=tuple(_cell(place, members, rows, metric) for place, members in places.items()),
    )


def robustness_curve(cells: Cells) -> Table:
    """The scores of each model's cells from the best to the worst: how much of its grid does it do well on?

    Only cells with a result. Columns: model, rank (1-based), share (rank / cells with a result, in 0…1), score, x, y,
    n_cells (of this model, with a result) and n_planned_cells.
    """
    table = []
    for model in cells.models:
        planned = [cell for cell in cells.cells if cell.model == model]
        found = sorted((cell for cell in planned if cell.score is not None), key=_score, reverse=True)
        for rank, cell in enumerate(found, 1):
            table.append(
                {
                    "model": model,
                    "rank": rank,
                    "share": rank / len(found),
                    "score": cell.score,
                    "x": cell.x,
                    "y": cell.y,
                    "n_cells": len(found),
                    "n_planned_cells": len(planned),
                }
            )
    return table


def model_summary(cells: Cells) -> Table:
    """One row a model: its best cell, its mean over cells, its share of cells close to the best one of any model.

    The best cell is the one of the highest score (the first of equals), so that a cell that mostly diverges does not
    win by its one lucky run. Columns: model, best_x, best_y, best_score, best_mean, best_sd, best_n (ok runs),
    mean_score (over cells with a result), close_share and n_close (cells whose score is within CLOSE of the best of
    any model), n_cells (with a result), n_planned_cells, and n_ok, n_diverged, n_failed, n_missing, n_unmeasured
    (runs). None where a model has no result.
    """
    best_cells = _best_cells(cells)
    best_of_all = max(map(_score, best_cells.values()), default=0.0)
    table = []
    for model in cells.models:
        planned = [cell for cell in cells.cells if cell.model == model]
        found = [cell for cell in planned if cell.score is not None]
        best = best_cells.get(model)
        close = [cell for cell in found if _score(cell) >= best_of_all - CLOSE - 1e-9]
        table.append(
            {
                "model": model,
                "best_x": best and best.x,
                "best_y": best and best.y,
                "best_score": best and best.score,
                "best_mean": best and best.mean,
                "best_sd": best and best.sd,
                "best_n": best and best.n_ok,
                "mean_score": statistics.fmean(map(_score, found)) if found else None,
                "close_share": len(close) / len(found) if found else None,
                "n_close": len(close),
                "n_cells": len(found),
                "n_planned_cells": len(planned),
                **{
                    name: sum(getattr(cell, name) for cell in planned)
                    for name in ("n_ok", "n_diverged", "n_failed", "n_missing", "n_unmeasured")
                },
            }
        )
    return table


def ids_of_best_cells(cells: Cells) -> list[str]:
    """Ids of the ok runs in the best cell of each model: those whose curves `learning_curves` wants."""
    return [id_ for cell in _best_cells(cells).values() for id_ in cell.ids]


def learning_curves(cells: Cells, rows: Mapping[str, Mapping[str, Any]], curves: pa.Table) -> Table:
    """The accuracy of each model's best cell, epoch by epoch, on the sequences that the metric is measured on.

    `curves` are rows of results.schema.CURVES; those of other trials, splits, lengths and cases are passed over.
    Columns: model, x, y, epoch, n (ok runs with that epoch), mean, lowest and highest over them.
    """
    split = "train" if "_train_" in cells.metric else "eval"
    accuracies: dict[tuple[str, int], float] = {}
    for row in curves.to_pylist():
        measured_on = (split, "all", rows.get(row["id"], {}).get("eval_length" if split == "eval" else "length"))
        if (row["split"], row["case"], row["length"]) == measured_on and row["count"]:
            accuracies[row["id"], row["epoch"]] = row["correct"] / row["count"]
    epochs = sorted({epoch for _, epoch in accuracies})
    table = []
    for model, cell in _best_cells(cells).items():
        for epoch in epochs:
            if values := [accuracies[id_, epoch] for id_ in cell.ids if (id_, epoch) in accuracies]:
                table.append(
                    {
                        "model": model,
                        "x": cell.x,
                        "y": cell.y,
                        "epoch": epoch,
                        "n": len(values),
                        "mean": statistics.fmean(values),
                        "lowest": min(values),
                        "highest": max(values),
                    }
                )
    return table


def counts(points: Sequence[Mapping[str, Value]], rows: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """How many different trials are planned, have each status, and are missing."""
    ids = {point["id"] for point in points}
    found = Counter(rows[id_]["status"] if id_ in rows else "missing" for id_ in ids)
    return {"planned": len(ids), **{status: found[status] for status in (*STATUSES, "missing")}}


def failures(points: Sequence[Mapping[str, Value]], rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """What went wrong, by kind, the most frequent first.

    A kind is a status and the last line of the error, numbers aside. Columns: status, kind, count, and of the first
    such trial its id (example_id), its axes (example) and its whole error (error, empty where none was kept).
    """
    kinds: dict[tuple[str, str], Table] = {}
    for point in points:
        row = rows.get(point["id"], {})
        if row.get("status") in ("failed", "oom"):
            error = (row.get("error") or "").strip()
            kind = error.splitlines()[-1].strip() if error else "no message"
            example = ", ".join(f"{name}={format_value(value)}" for name, value in point.items() if name != "id")
            found = {"status": row["status"], "kind": kind, "id": point["id"], "example": example, "error": error}
            kinds.setdefault((row["status"], re.sub(r"\d+", "#", kind)), []).append(found)
    return [
        {
            "status": first["status"],
            "kind": first["kind"],
            "count": len(found),
            "example_id": first["id"],
            "example": first["example"],
            "error": first["error"],
        }
        for found in sorted(kinds.values(), key=len, reverse=True)
        for first in found[:1]
    ]


def to_csv(table: Table, path: Path) -> None:
    """Saves a table as CSV (RFC 4180), atomically. None is an empty field, a sequence is joined by spaces."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(dict.fromkeys(name for row in table for name in row))
    for row in table:
        writer.writerow(" ".join(map(str, value)) if isinstance(value, tuple) else value for value in row.values())
    save_text(path, text.getvalue())


def format_value(value: Value) -> str:
    """A value of an axis as people write it: 64, 0.0081, 2.2e-05, nap."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def metric_label(metric: str) -> str:
    """final_eval_accuracy as people say it: final evaluation accuracy."""
    return metric.replace("_eval_", "_evaluation_").replace("_train_", "_training_").replace("_", " ")


def is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _cell(place: tuple, members: Sequence[Mapping], rows: Mapping[str, Mapping], metric: str) -> Cell:
    found = [(point, rows[point["id"]]) for point in members if point["id"] in rows]
    status = Counter(row["status"] for _, row in found)
    measured = [
        (float(row[metric]), point.get("seed"), point["id"])
        for point, row in found
        if row["status"] == "ok" and row.get(metric) is not None and math.isfinite(row[metric])
    ]
    values = tuple(value for value, _, _ in measured)
    n_scored = len(values) + status["diverged"]
    model, x, y = place
    return Cell(
        model=model,
        x=x,
        y=y,
        values=values,
        seeds=tuple(seed for _, seed, _ in measured),
        ids=tuple(id_ for _, _, id_ in measured),
        n_planned=len(members),
        n_ok=status["ok"],
        n_diverged=status["diverged"],
        n_failed=status["failed"] + status["oom"],
        n_missing=len(members) - len(found),
        n_unmeasured=status["ok"] - len(values),
        mean=statistics.fmean(values) if values else None,
        sd=statistics.stdev(values) if len(values) > 1 else None,
        score=math.fsum(values) / n_scored if n_scored else None,
    )


def _best_cells(cells: Cells) -> dict[str, Cell]:
    """The cell of the highest score of each model that has a result, the first of equals."""
    best: dict[str, Cell] = {}
    for cell in cells.cells:
        if cell.score is not None and (cell.model not in best or cell.score > _score(best[cell.model])):
            best[cell.model] = cell
    return {model: best[model] for model in cells.models if model in best}


def _score(cell: Cell) -> float:
    assert cell.score is not None
    return cell.score


def _in_order(values: Iterable[Value]) -> tuple[Value, ...]:
    distinct = tuple(dict.fromkeys(values))
    return tuple(sorted(distinct)) if all(map(is_number, distinct)) else distinct


def _averaged_axes(points: Sequence[Mapping[str, Value]], shown: set[str | None]) -> tuple[str, ...]:
    """The further names under which the points differ."""
    values = defaultdict(set)
    for point in points:
        for name, value in point.items():
            if name not in shown:
                values[name].add(value)
    return tuple(name for name, distinct in values.items() if len(distinct) > 1)
