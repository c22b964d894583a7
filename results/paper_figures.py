"""The NAP paper's own picture, on request: three statistics of a cell in the red, green and blue of one pixel.

What it shows is explained beside it; a colour-blind eye cannot read it. A cell without a run is hatched here, where the
paper's code draws accuracy 0.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from results.cells import Cell, Cells, Table
from results.curves import Curves, Series
from results.heatmaps import Panel, panels

CHANNELS = ("red", "green", "blue")
PLACE = ("model", "facet", "x", "y")
SPREAD = ("lowest run", "mean", "highest run")


def spread_table(cells: Cells, curves: Curves) -> Table:
    """The paper's heatmap: the lowest, the mean and the highest accuracy over the runs of a cell, each at the epoch at
    which it is largest (display.py of OliverRichter/normalized-attention).

    Columns: model, facet, x, y, red, green, blue.
    """
    series = curves.series(cells.metric.split, cells.metric.at)
    return _table(cells, lambda cell: _spread(series, cell))


def case_table(cells: Cells, curves: Curves, cases: Sequence[str]) -> Table:
    """The same of cases: the mean over the runs of a cell of the accuracy on each of three cases, at training length,
    each at the epoch at which it is largest. Columns as in `spread_table`."""
    series = [curves.series("eval", "length", case) for case in cases]
    return _table(cells, lambda cell: [_largest(each.of(cell.ids), "mean") for each in series])


def rgb_heatmaps(table: Table, cells: Cells, names: Sequence[str]) -> Figure:
    """A panel a model, a pixel's channels as in the table; `names` says what they are."""
    colours = {tuple(row[name] for name in PLACE): tuple(row[name] for name in CHANNELS) for row in table}

    def colour_of(cell: Cell) -> tuple[float, ...] | None:
        return colours.get((cell.model, cell.facet, cell.x, cell.y))

    found = [cell if colour_of(cell) else replace(cell, mean=None) for cell in cells.cells]
    shown = [Panel(model, [cell for cell in found if cell.model == model]) for model in cells.models]
    legend = [
        Patch(facecolor=colour, label=f"{channel}: {name}")
        for colour, channel, name in zip(("#ff0000", "#00ff00", "#0000ff"), CHANNELS, names)
    ]

    def faces_of(coloured: Sequence[Cell]) -> np.ndarray:
        return np.array([(*(colour_of(cell) or ()), 1.0) for cell in coloured]).reshape(-1, 4)

    return panels(shown, cells, None, faces_of=faces_of, legend=legend)


def _table(cells: Cells, measure) -> Table:
    table = []
    for cell in cells.cells:
        numbers = measure(cell) if cell.mean is not None else None
        if numbers is not None and all(number is not None for number in numbers):
            row = {"model": cell.model, "facet": cell.facet, "x": cell.x, "y": cell.y}
            table.append(row | dict(zip(CHANNELS, numbers, strict=True)))
    return table


def _spread(series: Series, cell: Cell) -> list[float | None]:
    values = series.of(cell.ids)
    return [_largest(values, statistic) for statistic in ("min", "mean", "max")]


def _largest(values: np.ndarray, statistic: str) -> float | None:
    """The largest over epochs of a statistic over runs; [runs, E]."""
    whole = values[:, np.isfinite(values).all(axis=0)]
    return float(getattr(whole, statistic)(axis=0).max()) if whole.size else None
