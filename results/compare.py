"""Our cells beside published ones."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from results.cells import Cell, Cells, Table, Value, cell_of_values, is_number
from results.statistics import difference_interval

MARGIN = 0.02
DEVIATIONS = 3
"""A mean is within the published runs if it lies in their range, widened by three of their standard deviations or by
0.02, whichever is more: five runs do not show their whole range."""

VERDICTS = ("within", "above", "below", "diverged", "failed", "not run")


class CompareError(Exception):
    """Ours and theirs cannot be laid side by side; the message is for the user."""


@dataclass(frozen=True)
class Comparison:
    """Ours and theirs.

    Attributes:
        table: one row a published cell that the study plans: its place, ours (mean over the results, a diverged run as
            0), n, n_diverged, theirs (mean), theirs_lowest, theirs_highest, n_theirs, difference, low and high
            (Welch's interval of 95%), allowed_low, allowed_high, verdict.
        shares: one row a model: model, a count of each verdict, share (within, of those with a run that ended),
            difference (mean).
        theirs, differences: cells over the axes of ours, where there are published ones; the published runs, and our
            mean minus theirs.
        by_chance: the share of cells within which the published mean of another model lies too.
        notes: what differs between the trials compared, in words.
    """

    table: Table
    shares: Table
    theirs: Cells
    differences: Cells
    by_chance: float | None = None
    notes: tuple[str, ...] = ()


def compare(ours: Cells, published: pa.Table, task: str, notes: Sequence[str] = ()) -> Comparison:
    """Lays a study's cells beside published ones of the same task, axis, model and learning rate.

    Args:
        ours: with `learning_rate` as y and the axis that was published as x.
        published: a row a model, as results.published has it.
        task: as the published table names it.

    Raises:
        CompareError: it has nothing of this task, axis or metric, or the study varies more than its two axes.
    """
    if ours.facet is not None or ours.averaged_axes:
        more = ", ".join(filter(None, [ours.facet, *ours.averaged_axes]))
        raise CompareError(f"published cells have two axes, and the study varies {more} as well: narrow it with --set")
    theirs = _published_cells(ours, published, task)
    places = {id(cell): (cell.model, _key(cell.x), _key(cell.y)) for cell in ours.cells}
    shown = [cell for cell in ours.cells if theirs.get(places[id(cell)])]
    if not shown:
        raise CompareError("the published table has none of this study's models at these values and learning rates")
    table = [_row(cell, theirs[places[id(cell)]], ours.x or "x") for cell in shown]
    published_cells = [cell_of_values(cell.model, cell.x, cell.y, theirs[places[id(cell)]]) for cell in shown]
    differences = [replace(cell, mean=row["difference"]) for cell, row in zip(shown, table, strict=True)]
    return Comparison(
        table,
        _shares(ours.models, table),
        replace(ours, cells=tuple(published_cells)),
        replace(ours, cells=tuple(differences)),
        _by_chance(theirs, [places[id(cell)] for cell in shown]),
        tuple(notes),
    )


def verdict(mean: float | None, low: float, high: float) -> str:
    """Where a mean lies against what is allowed."""
    if mean is None:
        return "not run"
    return "below" if mean < low else "above" if mean > high else "within"


def _row(cell: Cell, values: Sequence[float], x: str) -> dict[str, Any]:
    mean, (low, high) = statistics.fmean(values), allowed(values)
    state = {"diverged": "diverged", "failed": "failed", "unmeasured": "failed"}.get(cell.state)
    ours = cell.score if state is None else None
    bounds = (difference_interval(cell.results, values) if ours is not None else None) or (None, None)
    return {
        "model": cell.model, x: cell.x, "learning_rate": cell.y, "ours": ours, "n": len(cell.results),
        "n_diverged": cell.n_diverged, "theirs": mean, "theirs_lowest": min(values), "theirs_highest": max(values),
        "n_theirs": len(values), "difference": None if ours is None else ours - mean, "low": bounds[0],
        "high": bounds[1], "allowed_low": low, "allowed_high": high, "verdict": state or verdict(ours, low, high),
    }  # fmt: skip


def _by_chance(theirs: Mapping[tuple, Sequence[float]], places: Sequence[tuple]) -> float | None:
    """Of the published means of other models at the same places, the share that the rule lets pass too."""
    passed = []
    for model, x, y in places:
        low, high = allowed(theirs[model, x, y])
        others = [
            statistics.fmean(values) for (other, *at), values in theirs.items() if other != model and at == [x, y]
        ]
        passed += [low <= mean <= high for mean in others]
    return sum(passed) / len(passed) if passed else None


def _published_cells(ours: Cells, published: pa.Table, task: str) -> dict[tuple, list[float]]:
    metric = ours.metric.name
    if metric not in published.column_names:
        there = [name for name in published.column_names if "accuracy" in name or "_case_" in name]
        raise CompareError(f"the published table has no {metric}: --metric one of {', '.join(there)}")
    if ours.y != "learning_rate" or ours.x is None:
        raise CompareError("published cells lie over an axis and the learning rate: choose --x AXIS --y learning_rate")
    rows = published.select(["task", "axis", "model", "axis_value", "learning_rate", metric]).to_pylist()
    for name, wanted in (("task", task), ("axis", ours.x)):
        there = sorted({row[name] for row in rows})
        rows = [row for row in rows if row[name] == wanted]
        if not rows:
            raise CompareError(f"the published table has nothing of {name} {wanted}: it has {', '.join(there)}")
    found = defaultdict(list)
    for row in rows:
        if row[metric] is not None and math.isfinite(row[metric]):
            found[row["model"], _key(row["axis_value"]), _key(row["learning_rate"])].append(row[metric])
    return found


def _key(value: Value) -> Value:
    """Numbers that are the same to four digits are the same: published ones are rounded."""
    return f"{value:.3e}" if is_number(value) else value


def allowed(values: Sequence[float]) -> tuple[float, float]:
    """Where a mean is within these runs."""
    wide = max(DEVIATIONS * statistics.stdev(values), MARGIN) if len(values) > 1 else MARGIN
    return min(values) - wide, max(values) + wide


def _shares(models: Sequence[str], table: Table) -> Table:
    shares = []
    for model in models:
        rows = [row for row in table if row["model"] == model]
        counts = Counter(row["verdict"] for row in rows)
        run = len(rows) - counts["not run"] - counts["failed"]
        differences = [row["difference"] for row in rows if row["difference"] is not None]
        if rows:
            shares.append(
                {"model": model, **{name: counts[name] for name in VERDICTS},
                 "share": counts["within"] / run if run else None,
                 "difference": statistics.fmean(differences) if differences else None}
            )  # fmt: skip
    return shares
