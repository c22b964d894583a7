"""The initialisation experiment, drawn: size of what is mixed against how many tokens are mixed."""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from results.canvas import STYLE, add_axes, empty_figure
from results.cells import Table
from results.figures import COLOURS

MIXER = " (mixer)"
"""What ends the label of a mixer, so that the aggregator of the same name has its colour."""

DASHES = ((0, (4, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
MARKERS = ("o", "s", "^")
PANELS = {"std": "standard deviation of its numbers", "norm": "norm of a token"}
WIDTH, HEIGHT = 3.0, 3.0  # inches, of a panel
LEFT, TOP = 0.55, 0.3  # inches, before and above a panel
LEGEND_LINE = 0.17  # inches
MOST_TICKS = 6  # of the lengths


def scaling_figure(table: Table) -> Figure:
    """Two panels on log axes, deviation and norm against length, a line an aggregator.

    An aggregator's line is broad and light, a mixer's thin, broken and marked, in the colour of the aggregator of its
    name; so two that coincide are both seen. What is 0 throughout cannot stand on a log axis: the legend says so. The
    legend is in the order in which the lines end.

    Args:
        table: rows with aggregator, length, std and norm.
    """
    lines: dict[str, Table] = {}
    for row in sorted(table, key=lambda row: row["length"]):
        lines.setdefault(row["aggregator"], []).append(row)
    styles = line_styles(list(lines))
    with matplotlib.rc_context(STYLE):
        height = max(HEIGHT, LEGEND_LINE * len(lines))
        legend_width = 0.7 + 0.066 * max(map(len, lines), default=0)
        figure = empty_figure(2 * (LEFT + WIDTH) + legend_width, TOP + height + 0.5)
        for number, (column, title) in enumerate(PANELS.items()):
            left = LEFT + number * (WIDTH + LEFT)
            axes = add_axes(figure, left, TOP, WIDTH, height)
            _draw(axes, lines, styles, column, title)
        order = sorted(lines, key=lambda name: max(0.0, lines[name][-1]["norm"]), reverse=True)
        handles = [Line2D([], [], **styles[name]) for name in order]
        labels = [name if any(row["norm"] for row in lines[name]) else f"{name}: 0" for name in order]
        axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.01, 1.03), frameon=False, handlelength=3.4)
    return figure


def line_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How each line is drawn: no two alike for up to 21 mixers and as many aggregators beside them."""
    words = list(dict.fromkeys(name.partition(" ")[0] for name in names))
    styles = {}
    for name in names:
        lap, colour = divmod(words.index(name.partition(" ")[0]), len(COLOURS))
        style: dict[str, Any] = {"color": COLOURS[colour]}
        if name.endswith(MIXER):
            dashes, marker = DASHES[lap % len(DASHES)], MARKERS[lap % len(MARKERS)]
            style |= {"linestyle": dashes, "linewidth": 1.1, "marker": marker, "markersize": 2.8}
        else:
            style |= {"linestyle": "-", "linewidth": 3.2, "alpha": 0.4, "solid_capstyle": "round"}
        styles[name] = style
    return styles


def _draw(axes: Axes, lines: dict[str, Table], styles: dict[str, dict[str, Any]], column: str, title: str) -> None:
    for name in sorted(lines, key=lambda name: name.endswith(MIXER)):
        rows = lines[name]
        sizes = [_drawn(row[column]) for row in rows]
        if not all(map(math.isnan, sizes)):
            axes.plot([row["length"] for row in rows], sizes, **styles[name])
    lengths = sorted({row["length"] for rows in lines.values() for row in rows})
    ticks = lengths[:: -(-len(lengths) // MOST_TICKS) or 1]
    axes.set(xscale="log", yscale="log", xlabel="tokens that are mixed", title=title)
    axes.set_xticks(ticks, [f"{length:,}" for length in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(color="#e3e3e3", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _drawn(size: float) -> float:
    """A size, or NaN where it has no place on a log axis."""
    return size if math.isfinite(size) and size > 0 else math.nan
