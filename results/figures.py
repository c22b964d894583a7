"""From tables to figures. Nothing is computed here that results.tables does not give: these functions only draw.

Figures are made without pyplot, so no global state, window or display is touched. They are drawn on white, which
also reads as a card on a dark page.

    cells = tables.cells(points, rows, "width", "learning_rate")
    figures.save(figures.heatmaps(cells), Path("figures/heatmaps"))
"""

from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from results.canvas import STYLE, add_axes, empty_figure, save
from results.heatmaps import heatmaps
from results.tables import Table, metric_label

__all__ = ["heatmaps", "learning_curves", "robustness_curves", "save"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito (2008)
STYLES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))


CONSTANT = "best constant"
"""Label of the accuracy of the best constant answer."""


def robustness_curves(table: Table, *, models: Sequence[str], metric: str, chance: float | None = None) -> Figure:
    """One line a model: its cells from the best to the worst, from results.tables.robustness_curve.

    Reads: on this share of its cells, the model scores at least this much. `models` are those of the study: a model's
    place there gives its colour, in every figure. `chance` draws a dashed line.
    """
    lines = {}
    for model, rows in _by_model(table).items():
        n_cells, n_planned = rows[0]["n_cells"], rows[0]["n_planned_cells"]
        label = model if n_cells == n_planned else f"{model} ({n_cells} of {n_planned} cells)"
        lines[label] = rows
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure_for_lines([*lines, CONSTANT], metric_label(metric))
        for label, rows in lines.items():
            axes.plot(
                [0.0, *(100 * row["share"] for row in rows)],
                [rows[0]["score"], *(row["score"] for row in rows)],
                drawstyle="steps-pre",
                label=label,
                **_line_style(models.index(rows[0]["model"])),
            )
        axes.set(xlim=(0, 100), xlabel="share of cells, best first (%)")
        _finish_lines(axes, chance)
    return figure


def learning_curves(table: Table, *, models: Sequence[str], metric: str, chance: float | None = None) -> Figure:
    """One line a model: the mean accuracy of its best cell by epoch, in a band from the lowest to the highest run.

    The table is that of results.tables.learning_curves; `models` and `chance` are as in `robustness_curves`.
    """
    by_model = _by_model(table)
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure_for_lines([*by_model, CONSTANT], metric_label(metric).partition(" ")[2])
        for model, rows in by_model.items():
            epochs, style = [row["epoch"] for row in rows], _line_style(models.index(model))
            lowest, highest = [row["lowest"] for row in rows], [row["highest"] for row in rows]
            axes.fill_between(epochs, lowest, highest, color=style["color"], alpha=0.13, linewidth=0)
            marker = "o" if len(rows) == 1 else None
            axes.plot(epochs, [row["mean"] for row in rows], marker=marker, label=model, **style)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(x=0.01)
        axes.set_xlabel("epoch")
        _finish_lines(axes, chance)
    return figure


def _by_model(table: Table) -> dict[str, Table]:
    by_model: dict[str, Table] = {}
    for row in table:
        by_model.setdefault(row["model"], []).append(row)
    return by_model


def _line_style(number: int) -> dict[str, Any]:
    """A colour and a style for the n-th of up to 28 lines; both change, for who cannot tell the colours apart."""
    lap, colour = divmod(number, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": STYLES[(colour + lap) % len(STYLES)], "linewidth": 1.6}


def _figure_for_lines(labels: Sequence[str], y_label: str) -> tuple[Figure, Axes]:
    """Axes of an accuracy, with room for a legend of `labels` at their right."""
    height = max(2.7, 0.165 * (len(labels) + 1))
    figure = empty_figure(5.0 + 0.75 + 0.065 * max(map(len, labels), default=0), height + 0.65)
    axes = add_axes(figure, 0.6, 0.15, 4.4, height)
    axes.set(ylim=(0, 1.01), ylabel=y_label)
    axes.grid(color="#e3e3e3", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _finish_lines(axes: Axes, chance: float | None) -> None:
    if chance is not None:
        axes.axhline(chance, color="#555555", linestyle=(0, (2, 2)), linewidth=0.8, label=CONSTANT, zorder=0.9)
    if axes.get_lines():
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.03), frameon=False, handlelength=3.0)
