"""Our cells beside published ones."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from results.cells import Cells, Table, Value, cell_of_values, is_number
from results.statistics import difference_interval

MARGIN = 0.02
DEVIATIONS = 3
"""A mean is within the published runs if it lies in their range, widened by three of their standard deviations or by
0.02, whichever is more: five runs do not show their whole range."""

VERDICTS = ("within", "above", "below", "not run")


class CompareError(Exception):
    """Ours and theirs cannot be laid side by side; the message is for the user."""


@dataclass(frozen=True)
class Comparison:
    """Ours and theirs.

    Attributes:
        table: one row a published cell that the study plans; see `compared`.
        shares: one row a model: model, a count of each verdict, share (within, of those run), difference (mean).
        theirs, differences: cells over the axes of ours; values are the published runs, and our mean minus theirs.
    """

    table: Table
    shares: Table
    theirs: Cells
    differences: Cells


def compare(ours: Cells, published: pa.Table, task: str) -> Comparison:
    """Lays a study's cells beside published ones of the same task, axis, model and learning rate.

    Args:
        ours: with `learning_rate` as y and the axis that was published as x.
        published: a row a model, as results.published has it.
        task: as the published table names it.

    Raises:
        CompareError: it has nothing of this task, axis or metric.
    """
    theirs = _published_cells(ours, published, task)
    table = []
    for cell in ours.cells:
        values = theirs.get((cell.model, _key(cell.x), _key(cell.y)))
        if not values:
            continue
        row = {"model": cell.model, ours.x or "x": cell.x, "learning_rate": cell.y}
        mean, low, high = statistics.fmean(values), *_range(values)
        interval = difference_interval(cell.values, values) or (None, None)
        table.append(
            {**row, "ours": cell.mean, "n": len(cell.values), "theirs": mean, "theirs_lowest": min(values),
             "theirs_highest": max(values), "n_theirs": len(values),
             "difference": None if cell.mean is None else cell.mean - mean, "low": interval[0], "high": interval[1],
             "allowed_low": low, "allowed_high": high, "verdict": verdict(cell.mean, low, high)}
        )  # fmt: skip
    if not table:
        raise CompareError("the published table has none of this study's models at these values and learning rates")
    places = [(cell.model, cell.x, cell.y) for cell in ours.cells]
    found = {(row["model"], row[ours.x or "x"], row["learning_rate"]): row["difference"] for row in table}
    shown = [cell_of_values(*place, theirs.get((place[0], _key(place[1]), _key(place[2])), ())) for place in places]
    differ = [cell_of_values(*place, [found[place]] if found.get(place) is not None else ()) for place in places]
    return Comparison(
        table, _shares(ours.models, table), replace(ours, cells=tuple(shown)), replace(ours, cells=tuple(differ))
    )


def verdict(mean: float | None, low: float, high: float) -> str:
    """Where a mean lies against what is allowed."""
    if mean is None:
        return "not run"
    return "below" if mean < low else "above" if mean > high else "within"


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
        if row[metric] is not None:
            found[row["model"], _key(row["axis_value"]), _key(row["learning_rate"])].append(row[metric])
    return found


def _key(value: Value) -> Value:
    """Numbers that are the same to four digits are the same: published ones are rounded."""
    return f"{value:.3e}" if is_number(value) else value


def _range(values: Sequence[float]) -> tuple[float, float]:
    wide = max(DEVIATIONS * statistics.stdev(values), MARGIN) if len(values) > 1 else MARGIN
    return min(values) - wide, max(values) + wide


def _shares(models: Sequence[str], table: Table) -> Table:
    shares = []
    for model in models:
        rows = [row for row in table if row["model"] == model]
        counts = Counter(row["verdict"] for row in rows)
        run = len(rows) - counts["not run"]
        differences = [row["difference"] for row in rows if row["difference"] is not None]
        if rows:
            shares.append(
                {"model": model, **{name: counts[name] for name in VERDICTS},
                 "share": counts["within"] / run if run else None,
                 "difference": statistics.fmean(differences) if differences else None}
            )  # fmt: skip
    return shares
