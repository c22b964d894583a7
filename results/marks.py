"""One panel of a heatmap: coloured cells, and a mark for whatever is not a mean."""

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.legend_handler import HandlerBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from results.axes import Axis
from results.cells import Cell

COLOURS = matplotlib.colormaps["viridis"]  # perceptually uniform, and read alike by colour-blind eyes and in grey
MARKS = {  # of a cell without a mean: face, lines, hatch. No two alike, and none like a colour of the scale
    "missing": ("#ffffff", "#9a9a9a", "/////"),
    "failed": ("#8a8a8a", "#ffffff", "..."),
    "unmeasured": ("#d4d4d4", "#555555", "-----"),
    "diverged": ("#ececec", "#ececec", ""),
}
LEGEND = {
    "missing": "not run yet",
    "failed": "failed or out of memory",
    "unmeasured": "finished without a finite value",
    "unplanned": "not part of the study",
    "diverged": "every finished run diverged",
    "some diverged": "some runs diverged (colour: the others)",
    "fewer": "runs in the mean, where fewer than planned",
}
INCHES_FOR_NUMBER = 0.16  # a smaller cell cannot hold its n, and gets a dot
INCHES_FOR_GAP = 0.1  # smaller cells touch


def draw_cells(
    axes: Axes,
    cells: Sequence[Cell],
    x_axis: Axis,
    y_axis: Axis,
    *,
    faces_of: Callable[[Sequence[Cell]], np.ndarray],
    inches: float,
    raster: bool,
) -> None:
    """Draws one panel. `faces_of`: colours [n, 4] of n cells with a mean; `inches`: the extent of the smallest cell."""
    column = {value: number for number, value in enumerate(x_axis.values)}
    row = {value: number for number, value in enumerate(y_axis.values)}
    faces = np.zeros((len(row), len(column), 4))
    marked: dict[str, list[Rectangle]] = {mark: [] for mark in MARKS}
    crosses: dict[str, list] = {}
    measured = [cell for cell in cells if cell.mean is not None]
    colours = {id(cell): face for cell, face in zip(measured, faces_of(measured), strict=True)}
    dots: dict[str, list[tuple[float, float]]] = {}
    for cell in cells:
        left, right = x_axis.edges[column[cell.x]], x_axis.edges[column[cell.x] + 1]
        low, high = y_axis.edges[row[cell.y]], y_axis.edges[row[cell.y] + 1]
        if cell.mean is None:
            marked[cell.state].append(Rectangle((left, low), right - left, high - low))
        else:
            faces[row[cell.y], column[cell.x]] = colours[id(cell)]
        if not cell.n_diverged and not _is_fewer(cell):
            continue
        face = MARKS[cell.state][0] if cell.mean is None else colours[id(cell)]
        if cell.n_diverged:
            crosses.setdefault(ink_on(face), []).extend(_cross(left, right, low, high))
        if _is_fewer(cell):
            centre = ((left + right) / 2, (low + high) / 2)
            if inches < INCHES_FOR_NUMBER:
                dots.setdefault(ink_on(face), []).append(centre)
            else:
                _write_n(axes, cell, centre, face)

    gap = 0.6 if inches >= INCHES_FOR_GAP else 0.0
    axes.pcolormesh(
        x_axis.edges, y_axis.edges, faces, zorder=1, rasterized=raster,
        edgecolors="white" if gap else "face", linewidth=gap or 0.1, antialiased=bool(gap),
    )  # fmt: skip
    for mark, boxes in marked.items():
        if boxes:
            axes.add_collection(PatchCollection(boxes, **_mark_style(mark, inches), zorder=2))
            if gap:
                edges = PatchCollection(boxes, facecolor="none", edgecolor="white", linewidth=gap, zorder=2.5)
                axes.add_collection(edges)
    for ink, centres in dots.items():
        axes.plot(*zip(*centres), ".", color=ink, markersize=1.8, markeredgewidth=0, zorder=4)
    for ink, strokes in crosses.items():
        axes.add_collection(LineCollection(strokes, colors=ink, linewidths=1.0 if gap else 0.6, zorder=3))
    axes.set(xlim=(x_axis.edges[0], x_axis.edges[-1]), ylim=(y_axis.edges[0], y_axis.edges[-1]))


def _cross(left: float, right: float, low: float, high: float) -> list[list[tuple[float, float]]]:
    dx, dy = 0.16 * (right - left), 0.16 * (high - low)
    left, right, low, high = left + dx, right - dx, low + dy, high - dy
    return [[(left, low), (right, high)], [(left, high), (right, low)]]


def _write_n(axes: Axes, cell: Cell, centre: tuple[float, float], face: Any) -> None:
    """How many runs are behind the colour."""
    axes.text(
        *centre, str(len(cell.values)), color=ink_on(face), size=6.5, ha="center", va="center_baseline",
        bbox={"facecolor": face, "edgecolor": "none", "pad": 0.6}, zorder=4,
    )  # fmt: skip


def _mark_style(mark: str, inches: float) -> dict[str, Any]:
    face, lines, hatch = MARKS[mark]
    if mark == "failed" and inches < INCHES_FOR_GAP:
        hatch = ""  # a dot would fill the cell
    return {"facecolor": face, "edgecolor": lines, "hatch": hatch, "linewidth": 0}


def _is_fewer(cell: Cell) -> bool:
    return cell.mean is not None and len(cell.values) < cell.n_planned


def ink_on(colour: Any) -> str:
    """Dark or white, whichever reads on `colour` (relative luminance, ITU-R BT.709)."""
    red, green, blue = to_rgb(colour)
    return "#1a1a1a" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.45 else "#ffffff"


class Crossed(Patch):
    """A legend's entry for a crossed cell."""


class DrawCrossed(HandlerBase):
    def create_artists(self, legend: Any, handle: Any, *place: Any) -> list[Artist]:
        x_descent, y_descent, width, height, _, transform = place
        left, low = -x_descent, -y_descent
        face = handle.get_facecolor()
        box = Rectangle((left, low), width, height, facecolor=face, edgecolor="none", transform=transform)
        strokes = _cross(left, left + width, low, low + height)
        lines = [Line2D(*zip(*stroke), color=ink_on(face), linewidth=1.0, transform=transform) for stroke in strokes]
        return [box, *lines]


def legend_handles(cells: Sequence[Cell], planned: int, inches: float) -> list[Artist]:
    """An entry for each mark that occurs, in the order of LEGEND; `planned`: how many cells a whole grid has."""
    found = {cell.state for cell in cells}
    found |= {"some diverged" for cell in cells if cell.n_diverged and cell.mean is not None}
    found |= {"fewer" for cell in cells if _is_fewer(cell)}
    if len(cells) < planned:
        found.add("unplanned")
    handles: list[Artist] = []
    for mark, label in LEGEND.items():
        if mark not in found:
            continue
        if mark == "diverged":
            handles.append(Crossed(facecolor=MARKS[mark][0], label=label))
        elif mark == "some diverged":
            handles.append(Crossed(facecolor=COLOURS(0.3), label=label))
        elif mark == "unplanned":
            handles.append(Patch(facecolor="white", edgecolor="#c8c8c8", linewidth=0.6, label=label))
        elif mark == "fewer":
            marker = "$2$" if inches >= INCHES_FOR_NUMBER else "."
            text = label if inches >= INCHES_FOR_NUMBER else "fewer runs in the mean than planned"
            style: dict[str, Any] = {"linestyle": "none", "markersize": 5, "markeredgewidth": 0}
            handles.append(Line2D([], [], marker=marker, color="black", label=text, **style))
        else:
            handles.append(Patch(**_mark_style(mark, inches), label=label))
    return handles
