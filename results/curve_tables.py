"""Tables over epochs: how models learned."""

import numpy as np

from results.cells import Cell, Cells, Table
from results.curves import Curves

WHICH = ("best", "median", "worst")


def chosen_cells(cells: Cells) -> dict[tuple[str, str], Cell]:
    """The best, the median and the worst cell of each model by score, without repeats, by (model, which)."""
    chosen = {}
    for model in cells.models:
        ranked = cells.ranked(model)
        places = {"best": 0, "median": len(ranked) // 2, "worst": len(ranked) - 1}
        taken: set[int] = set()
        for which in WHICH:
            if ranked and places[which] not in taken:
                taken.add(places[which])
                chosen[model, which] = ranked[places[which]]
    return chosen


def learning_curves(cells: Cells, curves: Curves) -> Table:
    """The best, the median and the worst cell of each model, epoch by epoch, on the sequences that the metric is
    measured on.

    Columns: model, which, facet, x, y, epoch, n (runs with that epoch), mean, lowest and highest
    over them. Accuracies, or losses where the metric is one.
    """
    metric, table = cells.metric, []
    series = curves.series(metric.split, metric.at, metric.case, metric.kind)
    for (model, which), cell in chosen_cells(cells).items():
        values = series.of(cell.ids)
        for epoch in range(series.epochs):
            found = values[:, epoch][np.isfinite(values[:, epoch])]
            if len(found):
                table.append(
                    {"model": model, "which": which, "facet": cell.facet, "x": cell.x, "y": cell.y,
                     "epoch": epoch + 1, "n": len(found), "mean": float(found.mean()),
                     "lowest": float(found.min()), "highest": float(found.max())}
                )  # fmt: skip
    return table


def evolution(cells: Cells, curves: Curves) -> np.ndarray:
    """The mean over ok runs of every cell at every epoch: [cells, E], in the order of `cells.cells`, NaN where none."""
    metric = cells.metric
    series = curves.series(metric.split, metric.at, metric.case, metric.kind)
    means = np.full((len(cells.cells), series.epochs), np.nan)
    for number, cell in enumerate(cells.cells):
        values = series.of(cell.ids)
        found = np.isfinite(values)
        counts = found.sum(axis=0)
        sums = np.where(found, values, 0.0).sum(axis=0)
        means[number, counts > 0] = sums[counts > 0] / counts[counts > 0]
    return means
