"""Heatmaps of results.tables.Cells: a panel a model, one scale for all, and a mark for whatever is not a mean."""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from results.axes import Axis, lay_out
from results.canvas import STYLE, add_axes, empty_figure
from results.tables import Cell, Cells, metric_label

COLOURS = matplotlib.colormaps["viridis"]  # perceptually uniform, and read alike by colour-blind eyes and in grey
MARKS = {  # of a cell without a mean: face, lines, hatch. No two alike, and none like a colour of the scale
    "missing": ("#ffffff", "#9a9a9a", "/////"),
    "failed": ("#8a8a8a", "#ffffff", "..."),
    "unmeasured": ("#d4d4d4", "#555555", "-----"),
    "diverged": ("#ececec", "#ececec", ""),
}
CHANCE_LINE: dict[str, Any] = {"linewidth": 1.3, "linestyle": (0, (1.5, 1))}
LEGEND = {
    "missing": "not run yet",
    "failed": "failed or out of memory",
    "unmeasured": "finished without a finite value",
    "unplanned": "not part of the study",
    "diverged": "every finished run diverged",
    "some diverged": "some runs diverged (colour: the others)",
    "fewer": "runs in the mean, where fewer than planned",
}
TOP, BETWEEN_X, BETWEEN_Y = 0.25, 0.16, 0.3  # inches
INCHES_FOR_NUMBER = 0.16  # a smaller cell cannot hold its n, and gets a dot
INCHES_FOR_GAP = 0.1  # smaller cells touch
RASTER_ABOVE = 3_000  # cells: an SVG of more shapes opens slowly


def heatmaps(cells: Cells, *, limits: tuple[float, float] = (0.0, 1.0), chance: float | None = None) -> Figure:
    """One panel a model, all on one colour scale: the mean of each cell's ok runs.

    Cells without a mean carry a mark instead (not run, failed, diverged); a cell in which some runs diverged is
    crossed, and one whose mean is over fewer runs than planned says over how many. Numbers stand at their true places
    on the axes. `limits` are those of the colour scale; `chance` marks a value on it.
    """
    with matplotlib.rc_context(STYLE):
        x_axis, y_axis = lay_out(cells.x_values), lay_out(cells.y_values)
        n_panels = max(1, len(cells.models))
        n_columns = 3 if n_panels in (5, 6, 9) else min(4, n_panels)
        n_rows = math.ceil(n_panels / n_columns)
        width, height = _panel_inches(x_axis, n_columns), _panel_inches(y_axis, n_columns)
        cell_inches = min(width * x_axis.smallest_cell, height * y_axis.smallest_cell)

        left = 0.55 + 0.055 * max(len(label) for _, label in y_axis.ticks)
        figure_width = max(left + n_columns * (width + BETWEEN_X) + 0.8, 4.4)
        handles = _legend_handles(cells, x_axis, y_axis, cell_inches, chance)
        legend_columns = int((figure_width - 0.2) / 2.6)
        bottom = 0.15 + 0.17 * math.ceil(len(handles) / legend_columns)
        figure = empty_figure(figure_width, TOP + n_rows * (height + BETWEEN_Y) + bottom)

        scale = Normalize(*limits)
        for number, model in enumerate(cells.models):
            row, column = divmod(number, n_columns)
            axes = add_axes(
                figure, left + column * (width + BETWEEN_X), TOP + row * (height + BETWEEN_Y), width, height
            )
            axes.set_title(model, pad=3)
            members = [cell for cell in cells.cells if cell.model == model]
            _draw_cells(
                axes,
                members,
                x_axis,
                y_axis,
                scale=scale,
                inches=cell_inches,
                raster=len(cells.cells) > RASTER_ABOVE,
            )
            _label_x(axes, x_axis, width, cells.x, shown=number + n_columns >= n_panels)
            _label_y(axes, y_axis, height, cells.y, shown=column == 0)
        bar_height = min(2.4, n_rows * (height + BETWEEN_Y) - BETWEEN_Y)
        bar = add_axes(figure, left + n_columns * (width + BETWEEN_X), TOP, 0.12, bar_height)
        _draw_colour_bar(figure, bar, scale, cells.metric, chance)
        if handles:
            figure.legend(
                handles=handles,
                handler_map={_Crossed: _DrawCrossed()},
                loc="lower left",
                bbox_to_anchor=(0.08 / figure_width, 0.0),
                ncols=legend_columns,
                frameon=False,
                fontsize=7,
                handlelength=1.6,
                handleheight=1.1,
                columnspacing=1.6,
            )
    return figure


def _panel_inches(axis: Axis, n_columns: int) -> float:
    """The extent of a panel: with room for each cell, within what a page of such panels can hold."""
    most = {1: 4.0, 2: 3.4, 3: 3.0}.get(n_columns, 2.6)
    return min(max(0.32 / axis.smallest_cell, 1.3), most)


def _draw_cells(
    axes: Axes, cells: Sequence[Cell], x_axis: Axis, y_axis: Axis, *, scale: Normalize, inches: float, raster: bool
) -> None:
    """Draws one panel. `inches` is the extent of its smallest cell."""
    column = {value: number for number, value in enumerate(x_axis.values)}
    row = {value: number for number, value in enumerate(y_axis.values)}
    means = np.ma.array(np.zeros((len(row), len(column))), mask=True)
    marked: dict[str, list[Rectangle]] = {mark: [] for mark in MARKS}
    crosses: dict[str, list] = {}
    for cell in cells:
        left, right = x_axis.edges[column[cell.x]], x_axis.edges[column[cell.x] + 1]
        low, high = y_axis.edges[row[cell.y]], y_axis.edges[row[cell.y] + 1]
        if cell.mean is None:
            marked[cell.state].append(Rectangle((left, low), right - left, high - low))
        else:
            means[row[cell.y], column[cell.x]] = cell.mean
        if not cell.n_diverged and not _is_fewer(cell):
            continue
        face = MARKS[cell.state][0] if cell.mean is None else COLOURS(scale(cell.mean))
        if cell.n_diverged:
            crosses.setdefault(_ink_on(face), []).extend(_cross(left, right, low, high))
        if _is_fewer(cell):
            _write_n(axes, cell, ((left + right) / 2, (low + high) / 2), face, inches)

    gap = 0.6 if inches >= INCHES_FOR_GAP else 0.0
    axes.pcolormesh(
        x_axis.edges, y_axis.edges, means, cmap=COLOURS, norm=scale, zorder=1, rasterized=raster,
        edgecolors="white" if gap else "face", linewidth=gap or 0.1, antialiased=bool(gap),
    )  # fmt: skip
    for mark, boxes in marked.items():
        if boxes:
            axes.add_collection(PatchCollection(boxes, **_mark_style(mark, inches), zorder=2))
            if gap:
                edges = PatchCollection(boxes, facecolor="none", edgecolor="white", linewidth=gap, zorder=2.5)
                axes.add_collection(edges)
    for ink, strokes in crosses.items():
        axes.add_collection(LineCollection(strokes, colors=ink, linewidths=1.0 if gap else 0.6, zorder=3))
    axes.set(xlim=(x_axis.edges[0], x_axis.edges[-1]), ylim=(y_axis.edges[0], y_axis.edges[-1]))


def _cross(left: float, right: float, low: float, high: float) -> list[list[tuple[float, float]]]:
    dx, dy = 0.16 * (right - left), 0.16 * (high - low)
    left, right, low, high = left + dx, right - dx, low + dy, high - dy
    return [[(left, low), (right, high)], [(left, high), (right, low)]]


def _write_n(axes: Axes, cell: Cell, centre: tuple[float, float], face: Any, inches: float) -> None:
    """How many runs are behind the colour; a dot where there is no room for a number."""
    if inches < INCHES_FOR_NUMBER:
        axes.plot(*centre, ".", color=_ink_on(face), markersize=1.8, markeredgewidth=0, zorder=4)
    else:
        axes.text(
            *centre, str(len(cell.values)), color=_ink_on(face), size=6.5, ha="center", va="center_baseline",
            bbox={"facecolor": face, "edgecolor": "none", "pad": 0.6}, zorder=4,
        )  # fmt: skip


def _mark_style(mark: str, inches: float) -> dict[str, Any]:
    face, lines, hatch = MARKS[mark]
    if mark == "failed" and inches < INCHES_FOR_GAP:
        hatch = ""  # a dot would fill the cell
    return {"facecolor": face, "edgecolor": lines, "hatch": hatch, "linewidth": 0}


def _is_fewer(cell: Cell) -> bool:
    return cell.mean is not None and len(cell.values) < cell.n_planned


def _ink_on(colour: Any) -> str:
    """Dark or white, whichever reads on `colour` (relative luminance, ITU-R BT.709)."""
    red, green, blue = to_rgb(colour)
    return "#1a1a1a" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.45 else "#ffffff"


def _label_x(axes: Axes, axis: Axis, inches: float, name: str | None, *, shown: bool) -> None:
    longest = max(len(label) for _, label in axis.ticks)
    ticks = axis.spaced_ticks(inches, 0.08 + 0.062 * longest)
    axes.set_xticks([position for position, _ in ticks], [label for _, label in ticks] if shown else [])
    axes.set_xticks(axis.minor_ticks, minor=True)
    if shown and name is not None:
        axes.set_xlabel(name.replace("_", " "), labelpad=2)


def _label_y(axes: Axes, axis: Axis, inches: float, name: str | None, *, shown: bool) -> None:
    ticks = axis.spaced_ticks(inches, 0.13)
    axes.set_yticks([position for position, _ in ticks], [label for _, label in ticks] if shown else [])
    axes.set_yticks(axis.minor_ticks, minor=True)
    if shown and name is not None:
        axes.set_ylabel(name.replace("_", " "), labelpad=3)


def _draw_colour_bar(figure: Figure, axes: Axes, scale: Normalize, metric: str, chance: float | None) -> None:
    bar = figure.colorbar(ScalarMappable(scale, COLOURS), cax=axes)
    bar.set_label(metric_label(metric), labelpad=4)
    bar.outline.set_linewidth(0.6)
    if chance is not None:
        axes.axhline(chance, color=_ink_on(COLOURS(scale(chance))), **CHANCE_LINE)


class _Crossed(Patch):
    """A legend's entry for a crossed cell."""


class _DrawCrossed(HandlerBase):
    def create_artists(self, legend: Any, handle: Any, *place: Any) -> list[Artist]:
        x_descent, y_descent, width, height, _, transform = place
        left, low = -x_descent, -y_descent
        face = handle.get_facecolor()
        box = Rectangle((left, low), width, height, facecolor=face, edgecolor="none", transform=transform)
        strokes = _cross(left, left + width, low, low + height)
        lines = [Line2D(*zip(*stroke), color=_ink_on(face), linewidth=1.0, transform=transform) for stroke in strokes]
        return [box, *lines]


def _legend_handles(cells: Cells, x_axis: Axis, y_axis: Axis, inches: float, chance: float | None) -> list[Artist]:
    """An entry for each mark that occurs, in the order of LEGEND."""
    found = {cell.state for cell in cells.cells}
    found |= {"some diverged" for cell in cells.cells if cell.n_diverged and cell.mean is not None}
    found |= {"fewer" for cell in cells.cells if _is_fewer(cell)}
    if len(cells.cells) < len(cells.models) * len(x_axis.values) * len(y_axis.values):
        found.add("unplanned")
    handles: list[Artist] = []
    for mark, label in LEGEND.items():
        if mark not in found:
            continue
        if mark == "diverged":
            handles.append(_Crossed(facecolor=MARKS[mark][0], label=label))
        elif mark == "some diverged":
            handles.append(_Crossed(facecolor=COLOURS(0.3), label=label))
        elif mark == "unplanned":
            handles.append(Patch(facecolor="white", edgecolor="#c8c8c8", linewidth=0.6, label=label))
        elif mark == "fewer":
            marker = "$2$" if inches >= INCHES_FOR_NUMBER else "."
            text = label if inches >= INCHES_FOR_NUMBER else "fewer runs in the mean than planned"
            style: dict[str, Any] = {"linestyle": "none", "markersize": 5, "markeredgewidth": 0}
            handles.append(Line2D([], [], marker=marker, color="black", label=text, **style))
        else:
            handles.append(Patch(**_mark_style(mark, inches), label=label))
    if chance is not None:
        handles.append(
            Line2D(
                [], [], color="black", label=f"best constant answer ({chance:.3g}), on the colour bar", **CHANCE_LINE
            )
        )
    return handles
