"""From tables to figures of lines and matrices. Nothing is computed here that tables do not give: these functions only
draw. Heatmaps are in results.heatmaps.

Figures are made without pyplot, so no global state, window or display is touched. They are drawn on white, which
also reads as a card on a dark page. What belongs to a model carries the identifier `model-N` in an SVG, N its number
in the study, so that a page can switch it off.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from results.canvas import STYLE, add_axes, empty_figure
from results.cells import Table
from results.heatmaps import difference_scale
from results.marks import ink_on
from results.metrics import Metric

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito (2008)
STYLES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))

CONSTANT = "trivial answer"
"""Label of the accuracy of the best trivial answer."""

SIGNIFICANT = 0.05

MOST_COLUMNS = 4
"""Panels of lines side by side."""


def robustness_curves(table: Table, *, models: Sequence[str], metric: Metric, chance: float | None = None) -> Figure:
    """One line a model: its cells from the best to the worst, from results.tables.robustness_curve, in its interval.

    Reads: on this share of its cells, the model scores at least this much. `models` are those of the study: a model's
    place there gives its colour, in every figure. `chance` draws a dashed line.
    """
    lines = {}
    for model, rows in _by_model(table).items():
        n_cells, n_planned = rows[0]["n_cells"], rows[0]["n_planned_cells"]
        lines[model if n_cells == n_planned else f"{model} ({n_cells} of {n_planned} cells)"] = rows
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = _figure_for_lines([*lines, CONSTANT], metric)
        for label, rows in lines.items():
            number = models.index(rows[0]["model"])
            shares = [0.0, *(100 * row["share"] for row in rows)]
            if rows[0]["low"] is not None:
                lows, highs = ([rows[0][key], *(row[key] for row in rows)] for key in ("low", "high"))
                _band(axes, shares, lows, highs, number, step="pre")
            scores = [rows[0]["score"], *(row["score"] for row in rows)]
            axes.plot(shares, scores, drawstyle="steps-pre", label=label, **_line_style(number))
        axes.set(xlim=(0, 100), xlabel="share of cells, best first (%)")
        _finish_lines(axes, chance)
    return figure


def expected_bests(table: Table, *, models: Sequence[str], metric: Metric, chance: float | None = None) -> Figure:
    """One line a model: the expected best score of k random cells, from results.tables.expected_bests."""
    by_model = _by_model(table)
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = _figure_for_lines([*by_model, CONSTANT], metric)
        for model, rows in by_model.items():
            draws, expected = [row["k"] for row in rows], [row["expected"] for row in rows]
            axes.plot(draws, expected, marker="o", markersize=3, label=model, **_line_style(models.index(model)))
        axes.set_xscale("log", base=2)
        draws = sorted({row["k"] for row in table})
        axes.set_xticks(draws, [str(k) for k in draws])
        axes.set_xlabel("random cells tried")
        _finish_lines(axes, chance)
    return figure


def learning_curves(table: Table, *, models: Sequence[str], metric: Metric, chance: float | None = None) -> Figure:
    """The best, the median and the worst cell of each model by epoch: the mean of its runs, in a band from the lowest
    to the highest of them. The table is that of results.curve_tables.learning_curves."""
    shown = [which for which in ("best", "median", "worst") if any(row["which"] == which for row in table)]
    labels = [*_by_model(table), CONSTANT]
    with matplotlib.rc_context(STYLE):
        figure, fields = _figure_for_lines(labels, metric, panels=len(shown), width=2.5)
        if not metric.of_curves:
            fields[0].set_ylabel(metric.label.partition(" ")[2])  # by epoch: neither final nor best
        for which, axes in zip(shown, fields):
            axes.set_title(f"{which} cell", pad=3)
            for model, rows in _by_model([row for row in table if row["which"] == which]).items():
                number, epochs = models.index(model), [row["epoch"] for row in rows]
                _band(axes, epochs, [row["lowest"] for row in rows], [row["highest"] for row in rows], number)
                marker = "o" if len(rows) == 1 else None
                axes.plot(epochs, [row["mean"] for row in rows], marker=marker, label=model, **_line_style(number))
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.margins(x=0.01)
            axes.set_xlabel("epoch")
            _finish_lines(axes, chance, legend=axes is fields[-1])
    return figure


def pairwise_matrix(table: Table, *, models: Sequence[str], metric: Metric) -> Figure:
    """Every model (row) minus every other (column), from results.tables.pairwise: in points of accuracy, or in nats.

    A difference that is not significant after Holm's correction is grey and in brackets.
    """
    found = {(row["model"], row["other"]): row for row in table}
    found |= {
        (row["other"], row["model"]): {**row, "difference": row["difference"] and -row["difference"]} for row in table
    }
    factor, unit = (100.0, "points") if metric.kind == "accuracy" else (1.0, "nats")
    differences = [row["difference"] * factor for row in table if row["difference"] is not None]
    scale = difference_scale(f"row − column ({unit})", differences)
    side, left = max(2.2, 0.42 * len(models)), 0.25 + 0.075 * max(map(len, models))
    with matplotlib.rc_context(STYLE):
        figure = empty_figure(left + side + 0.9, left + side + 0.15)
        axes = add_axes(figure, left, left, side, side)
        size = min(7.5, 72 * side / len(models) / 4.6)
        for i, one in enumerate(models):
            for j, other in enumerate(models):
                row = found.get((one, other))
                if row is None or row["difference"] is None:
                    face, text = "#f2f2f2", "" if one == other else "–"
                else:
                    value, clear = row["difference"] * factor, row["p_holm"] is not None and row["p_holm"] < SIGNIFICANT
                    face = scale.colours(scale.norm(value)) if clear else "#e6e6e6"
                    text = f"{value:+.1f}" if factor > 1 else f"{value:+.2f}"
                    text = text if clear else f"({text})"
                axes.add_patch(matplotlib.patches.Rectangle((j, i), 1, 1, facecolor=face, edgecolor="white"))
                axes.text(j + 0.5, i + 0.5, text, size=size, ha="center", va="center_baseline", color=ink_on(face))
        axes.set(xlim=(0, len(models)), ylim=(len(models), 0))
        middles = [number + 0.5 for number in range(len(models))]
        axes.set_yticks(middles, models)
        axes.set_xticks(middles, models, rotation=90 if len(models) > 4 else 0)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        bar = add_axes(figure, left + side + 0.12, left, 0.12, min(side, 2.4))
        figure.colorbar(matplotlib.cm.ScalarMappable(scale.norm, scale.colours), cax=bar).set_label(scale.label)
    return figure


def importances(table: Table, *, models: Sequence[str]) -> Figure:
    """Bars: the share of each axis in what decides, a group a model; from results.importance.axis_importance."""
    axes_names = list(dict.fromkeys(row["axis"] for row in table))
    shown = [model for model in models if any(row["model"] == model for row in table)]
    labels = {model: next(f"{model} (n = {row['n']})" for row in table if row["model"] == model) for model in shown}
    height, left = 0.19 * max(len(axes_names), 1) + 0.1, 0.3 + 0.075 * max(map(len, labels.values()))
    with matplotlib.rc_context(STYLE):
        figure = empty_figure(left + 3.6 + 1.5, 0.55 + height * len(shown))
        axes = add_axes(figure, left, 0.1, 3.6, height * len(shown))
        for number, name in enumerate(axes_names):
            shares = {row["model"]: row["importance"] for row in table if row["axis"] == name}
            places = [row * height + 0.05 + 0.19 * (number + 0.5) for row, model in enumerate(shown) if model in shares]
            colour = COLOURS[number % len(COLOURS)]
            values = [100 * shares[model] for model in shown if model in shares]
            axes.barh(places, values, height=0.15, color=colour, label=name.replace("_", " "))
        axes.set(xlim=(0, 100), ylim=(height * len(shown), 0), xlabel="importance (%)")
        axes.set_yticks([(row + 0.5) * height for row in range(len(shown))], [labels[model] for model in shown])
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.03), frameon=False)
    return figure


def lengths(table: Table, *, models: Sequence[str], chance: float | None = None) -> Figure:
    """One line a model: final accuracy by evaluation length, a panel a training length; of the setting that does best
    there. The table is that of results.lengths.lengths."""
    trained = sorted({row["length"] for row in table})
    with matplotlib.rc_context(STYLE):
        figure, fields = _figure_for_lines([*_by_model(table), CONSTANT], None, panels=len(trained), width=2.2)
        for length, axes in zip(trained, fields):
            axes.set_title(f"trained at {length}", pad=3)
            for model, rows in _by_model([row for row in table if row["length"] == length]).items():
                rows = sorted((row for row in rows if row["best"] is not None), key=lambda row: row["eval_length"])
                places, bests = [row["eval_length"] for row in rows], [row["best"] for row in rows]
                axes.plot(places, bests, marker="o", markersize=3, label=model, **_line_style(models.index(model)))
            axes.set_xscale("log", base=2)
            axes.set_xlabel("evaluation length", labelpad=1)
            _finish_lines(axes, chance, legend=axes is fields[min(len(fields), MOST_COLUMNS) - 1])
    return figure


def _by_model(table: Table) -> dict[str, Table]:
    by_model: dict[str, Table] = {}
    for row in table:
        by_model.setdefault(row["model"], []).append(row)
    return by_model


def _line_style(number: int) -> dict[str, Any]:
    """A colour and a style for the n-th of up to 28 lines; both change, for who cannot tell the colours apart."""
    lap, colour = divmod(number, len(COLOURS))
    style = STYLES[(colour + lap) % len(STYLES)]
    return {"color": COLOURS[colour], "linestyle": style, "linewidth": 1.6, "gid": f"model-{number}"}


def _band(axes: Axes, x: Sequence[float], low: Sequence, high: Sequence, number: int, step: Any = None) -> None:
    style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "alpha": 0.13, "linewidth": 0}
    axes.fill_between(x, low, high, step=step, gid=f"model-{number}", **style)


def _figure_for_lines(
    labels: Sequence[str], metric: Metric | None, panels: int = 1, width: float = 4.4
) -> tuple[Figure, list[Axes]]:
    """Axes of a metric side by side, with room for a legend of `labels` at their right."""
    height, top = max(2.7 if panels == 1 else 2.2, 0.165 * (len(labels) + 1)), 0.15 if panels == 1 else 0.3
    columns, rows = min(panels, MOST_COLUMNS), -(-panels // MOST_COLUMNS)
    whole = 0.6 + columns * width + (columns - 1) * 0.2
    down = height + top + 0.5
    figure = empty_figure(whole + 0.75 + 0.065 * max(map(len, labels), default=0), rows * down)
    fields = [
        add_axes(figure, 0.6 + column * (width + 0.2), top + row * down, width, height)
        for row, column in (divmod(number, MOST_COLUMNS) for number in range(panels))
    ]
    for number, axes in enumerate(fields):
        if metric is None or metric.kind == "accuracy":
            axes.set_ylim(0, 1.01)
        if number % MOST_COLUMNS == 0:
            axes.set_ylabel("final evaluation accuracy" if metric is None else metric.label)
        else:
            axes.tick_params(labelleft=metric is not None and metric.kind == "loss")
        axes.grid(color="#e3e3e3", linewidth=0.5)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, fields


def _finish_lines(axes: Axes, chance: float | None, legend: bool = True) -> None:
    if chance is not None:
        axes.axhline(chance, color="#555555", linestyle=(0, (2, 2)), linewidth=0.8, label=CONSTANT, zorder=0.9)
    lines = axes.get_lines()
    if legend and lines:
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.03)}
        labels = [str(line.get_label()) for line in lines]  # given outright: a name may begin with _
        drawn = axes.legend(handles=list(lines), labels=labels, **place, frameon=False, handlelength=3.0)
        for line, handle, text in zip(lines, drawn.get_lines(), drawn.get_texts()):
            handle.set_gid(line.get_gid())
            text.set_gid(line.get_gid())
