"""From a study's points and a store's rows to cells: the pixels of a heatmap, with everything that was counted.

A study hands over its *points*, one dict a trial as the study sees it: `{"id": …, "model": …, "seed": …, <axis>: …}`,
and the store's rows by id. A point without a row is missing; that is not a failure, a divergence or a zero, and the
four are counted apart everywhere.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from results.curves import Curves, last_of
from results.metrics import Metric, metric_of, worst_of

Value = Any
"""A value of an axis: a number or a string, None or a bool."""

NOT_SHOWN = ("model", "facet", "x", "y", "results", "runs")
"""Of a cell, what its table has under other names or not at all."""

Table = list[dict[str, Any]]
Point = Mapping[str, Value]


class Run(NamedTuple):
    """A run with a result.

    Attributes:
        seed: its seed.
        setting: its values of averaged axes.
        result: its value, or what a diverged run counts as.
        ok: whether it did not diverge.
    """

    seed: int | None
    setting: tuple
    result: float
    ok: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """The trials of one model at one place of the figure: those that differ in their seed, and in the averaged axes."""

    model: str
    facet: Value  # of the axis by which panels are split, if any
    x: Value
    y: Value
    values: tuple[float, ...]  # the metric of each ok run, in the order of the points
    seeds: tuple[int | None, ...]  # their seeds
    ids: tuple[str, ...]  # and their ids
    results: tuple[float, ...]  # of each ok or diverged run: its value, or what a diverged run counts as
    runs: tuple["Run", ...]  # the same, one for each point: a trial that is two points of a study is there twice
    n_planned: int
    n_ok: int
    n_diverged: int
    n_failed: int  # failed or out of memory
    n_missing: int  # planned and without a row
    n_unmeasured: int  # ok, and yet without a finite value of the metric
    mean: float | None  # over the ok runs
    sd: float | None  # sample standard deviation over the ok runs, from two on
    score: float | None  # mean over the results, a diverged run counting as the worst

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
    facet: str | None
    metric: Metric
    models: tuple[str, ...]
    x_values: tuple[Value, ...]  # ascending where they are numbers, else in the study's order
    y_values: tuple[Value, ...]
    facet_values: tuple[Value, ...]
    averaged_axes: tuple[str, ...]  # further axes of the study: a cell holds the runs of all their values
    cells: tuple[Cell, ...]

    def table(self) -> Table:
        """One dict a cell, the axes under their own names."""
        places = [(name, key) for name, key in ((self.facet, "facet"), (self.x, "x"), (self.y, "y")) if name]
        others = [field.name for field in fields(Cell) if field.name not in NOT_SHOWN]
        return [
            {"model": cell.model}
            | {name: getattr(cell, key) for name, key in places}
            | {name: getattr(cell, name) for name in others}
            for cell in self.cells
        ]

    def of(self, model: str, facet: Value = None) -> list[Cell]:
        """A model's cells, at one value of the facet if there are facets and one is given."""
        every = facet is None
        return [cell for cell in self.cells if cell.model == model and (every or cell.facet == facet)]

    def scored(self, model: str) -> list[Cell]:
        """A model's cells with a result."""
        return [cell for cell in self.cells if cell.model == model and cell.score is not None]

    def ranked(self, model: str) -> list[Cell]:
        """A model's cells with a result, the best score first; equals in the study's order."""
        return sorted(self.scored(model), key=lambda cell: -self.metric.better(cell.score))


def cells(
    points: Sequence[Point],
    rows: Mapping[str, Mapping[str, Any]],
    x: str | None,
    y: str | None,
    metric: Metric | str = "final_eval_accuracy",
    curves: Curves | None = None,
    facet: str | None = None,
) -> Cells:
    """The cells of a study: one for each model and pair of an x and a y value that the study plans, and value of the
    facet if there is one.

    Without an axis (None) there is a single column or row, at None. What the study varies beyond model, seed, x and y
    is averaged within a cell, and named in `averaged_axes`. `curves` are needed for metrics out of them.

    Raises: ValueError for a metric that there is not, and for an axis that the points do not have.
    """
    metric = metric_of(metric) if isinstance(metric, str) else metric
    for axis in (x, y, facet):
        if axis is not None and points and not any(axis in point for point in points):
            names = sorted(set().union(*points) - {"id"})
            raise ValueError(f"no axis {axis!r} in this study: one of {', '.join(names)}")
    if metric.of_curves and curves is None:
        raise ValueError(f"metric {metric.name!r} is read from learning curves, and none were given")

    averaged = averaged_axes(points, {"id", "model", "seed", x, y, facet})
    places: dict[tuple, list[Point]] = defaultdict(list)
    for point in points:
        places[point["model"], *(name and point.get(name) for name in (facet, x, y))].append(point)
    measured = _Measured(metric, rows, curves)
    worst = worst_of(metric, list(rows.values()))
    return Cells(
        x=x,
        y=y,
        facet=facet,
        metric=metric,
        models=tuple(dict.fromkeys(point["model"] for point in points)),
        facet_values=in_order(place[1] for place in places),
        x_values=in_order(place[2] for place in places),
        y_values=in_order(place[3] for place in places),
        averaged_axes=averaged,
        cells=tuple(_cell(place, members, rows, measured, worst, averaged) for place, members in places.items()),
    )


class _Measured:
    """The metric of each trial of a cell."""

    def __init__(self, metric: Metric, rows: Mapping[str, Mapping[str, Any]], curves: Curves | None):
        self.metric, self.rows = metric, rows
        self.series = self.last = None
        if metric.of_curves and curves is not None:
            series = curves.series(metric.split, metric.at, metric.case)
            self.series, self.last = (series, None) if metric.of_cells else (None, last_of(series))

    def of(self, ids: Sequence[str]) -> list[float | None]:
        """The metric of the ok trials of a cell; None where one has none."""
        if self.series is not None:
            values = self.series.of(ids)
            there = np.isfinite(values)
            counts = there.sum(axis=0)
            if not counts.any():
                return [None] * len(ids)
            means = np.where(there, values, 0.0).sum(axis=0) / np.maximum(counts, 1)
            at = int(np.where(counts == counts.max(), means, -np.inf).argmax())  # where as many runs are as anywhere
            return [float(value) if np.isfinite(value) else None for value in values[:, at]]
        if self.last is not None:
            return [self.last.get(id_) for id_ in ids]
        return [self.rows[id_].get(self.metric.name) for id_ in ids]


def cell_of_values(model: str, x: Value, y: Value, values: Sequence[float]) -> Cell:
    """A cell of numbers from elsewhere; without any it is missing."""
    values, nothing = tuple(values), (None,) * len(values)
    mean = math.fsum(values) / len(values) if values else None
    return Cell(
        model=model, facet=None, x=x, y=y, values=values, seeds=nothing, ids=("",) * len(values), results=values,
        runs=tuple(Run(number, (), value, True) for number, value in enumerate(values)),
        n_planned=max(len(values), 1), n_ok=len(values), n_diverged=0, n_failed=0, n_missing=0 if values else 1,
        n_unmeasured=0, mean=mean, sd=sample_deviation(values), score=mean,
    )  # fmt: skip


def sample_deviation(values: Sequence[float]) -> float | None:
    """The sample standard deviation (n − 1); None of fewer than two."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def in_order(values: Iterable[Value]) -> tuple[Value, ...]:
    """Different values: ascending where they are numbers, else as they come."""
    distinct = tuple(dict.fromkeys(values))
    return tuple(sorted(distinct)) if all(map(is_number, distinct)) else distinct


def averaged_axes(points: Sequence[Point], shown: set[str | None]) -> tuple[str, ...]:
    """The further names under which the points differ."""
    values = defaultdict(set)
    for point in points:
        for name, value in point.items():
            if name not in shown:
                values[name].add(value)
    return tuple(name for name, distinct in values.items() if len(distinct) > 1)


def is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _cell(
    place: tuple,
    members: Sequence[Point],
    rows: Mapping[str, Mapping[str, Any]],
    measured: _Measured,
    worst: float,
    averaged: Sequence[str],
) -> Cell:
    by_id = {point["id"]: point for point in members}
    found = {id_: rows[id_] for id_ in by_id if id_ in rows}
    status = Counter(row["status"] for row in found.values())
    ok = [id_ for id_, row in found.items() if row["status"] == "ok"]
    of_ok = zip(ok, measured.of(ok), strict=True)
    numbers = {id_: float(value) for id_, value in of_ok if value is not None and math.isfinite(value)}
    counted = {
        id_: numbers.get(id_, worst) for id_, row in found.items() if id_ in numbers or row["status"] == "diverged"
    }
    runs = tuple(
        Run(
            point.get("seed"), tuple(point.get(name) for name in averaged), counted[point["id"]], point["id"] in numbers
        )
        for point in members
        if point["id"] in counted
    )
    values = tuple(numbers.values())
    model, facet, x, y = place
    return Cell(
        model=model,
        facet=facet,
        x=x,
        y=y,
        values=values,
        seeds=tuple(by_id[id_].get("seed") for id_ in numbers),
        ids=tuple(numbers),
        results=tuple(counted.values()),
        runs=runs,
        n_planned=len(by_id),
        n_ok=status["ok"],
        n_diverged=status["diverged"],
        n_failed=status["failed"] + status["oom"],
        n_missing=len(by_id) - len(found),
        n_unmeasured=status["ok"] - len(values),
        mean=math.fsum(values) / len(values) if values else None,
        sd=sample_deviation(values),
        score=math.fsum(counted.values()) / len(counted) if counted else None,
    )
