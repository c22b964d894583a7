"""Heatmaps: panels of cells on one scale, and a mark for whatever is not a mean."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from results.axes import Axis, lay_out
from results.canvas import STYLE, add_axes, empty_figure
from results.cells import Cell, Cells
from results.marks import COLOURS, Crossed, DrawCrossed, draw_cells, ink_on, legend_handles
from results.words import format_value

DIVERGING = matplotlib.colormaps["PuOr"]  # read alike by colour-blind eyes; white is no difference
TRIVIAL = "the best constant answer"
CHANCE_LINE: dict[str, Any] = {"linewidth": 1.3, "linestyle": (0, (1.5, 1))}
TOP, BETWEEN_X, BETWEEN_Y = 0.25, 0.16, 0.3  # inches
RASTER_ABOVE = 3_000  # cells: an SVG of more shapes opens slowly
SINGLE = 3.1  # inches at most of a panel alone on a page


@dataclass(frozen=True)
class Panel:
    """Cells under a title."""

    title: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Scale:
    """What colours mean.

    Attributes:
        label: of the colour bar.
        norm: numbers to 0…1.
        colours: 0…1 to colours.
        chance: a value marked on the bar.
        trivial: whose accuracy that is.
    """

    label: str
    norm: Normalize
    colours: Colormap = field(default_factory=lambda: COLOURS)
    chance: float | None = None
    trivial: str = TRIVIAL

    def faces_of(self, cells: Sequence[Cell]) -> np.ndarray:
        """Colours of cells with a mean, [n, 4]."""
        return self.colours(self.norm(np.array([cell.mean for cell in cells], float)))


@dataclass(frozen=True)
class Placed:
    """A picture of one panel, and where the cells are in it.

    Attributes:
        figure: the picture.
        box: left, top, width and height of the cells' field, as shares of the picture.
        x_edges, y_edges: where cells meet, as shares of the field from its left and from its top, ascending in the
            axes' values.
    """

    figure: Figure
    box: tuple[float, float, float, float]
    x_edges: tuple[float, ...]
    y_edges: tuple[float, ...]


def scale_of(cells: Cells, chance: float | None = None, trivial: str = TRIVIAL) -> Scale:
    """The scale of a metric: accuracies from 0 to 1, losses from the smallest to the largest mean."""
    limits = (0.0, 1.0)
    if cells.metric.kind == "loss":
        means = [cell.mean for cell in cells.cells if cell.mean is not None]
        limits = (min(means, default=0.0), max(means, default=1.0))
    colours = COLOURS if cells.metric.kind == "accuracy" else COLOURS.reversed()  # bright is good
    return Scale(cells.metric.label, Normalize(*limits), colours, chance, trivial)


def difference_scale(label: str, means: Sequence[float]) -> Scale:
    """A scale for differences: white is none."""
    most = max(map(abs, means), default=0.0) or 0.01
    return Scale(label, TwoSlopeNorm(0.0, -most, most), DIVERGING)


def panels_of(cells: Cells) -> list[Panel]:
    """A panel a model, and a value of the facet if there is one."""
    if cells.facet is None:
        return [Panel(model, cells.of(model)) for model in cells.models]
    name = cells.facet.replace("_", " ")
    return [
        Panel(f"{model} · {name} {format_value(facet)}", cells.of(model, facet))
        for facet in cells.facet_values
        for model in cells.models
    ]


def panels(
    shown: Sequence[Panel],
    cells: Cells,
    scale: Scale | None,
    *,
    n_columns: int | None = None,
    faces_of: Callable[[Sequence[Cell]], np.ndarray] | None = None,
    legend: Sequence[Artist] = (),
) -> Figure:
    """Panels over the axes of `cells`, in rows, with one colour bar (none without a scale) and one legend.

    A cell has the colour of its mean. Cells without one carry a mark instead (not run, failed, diverged); a cell in
    which some runs diverged is crossed, and one whose mean is over fewer runs than planned says over how many. Numbers
    stand at their true places on the axes.

    Args:
        n_columns: panels in a row; by default what fills the rows best.
        faces_of: colours in place of the scale's.
        legend: entries before those of the marks that occur.
    """
    faces_of = faces_of or (scale.faces_of if scale is not None else None)
    assert faces_of is not None
    with matplotlib.rc_context(STYLE):
        x_axis, y_axis = lay_out(cells.x_values), lay_out(cells.y_values)
        n_panels = max(1, len(shown))
        n_columns = n_columns or (3 if n_panels in (5, 6, 9) else min(4, n_panels))
        n_rows = math.ceil(n_panels / n_columns)
        width, height = _panel_inches(x_axis, n_columns), _panel_inches(y_axis, n_columns)
        inches = min(width * x_axis.smallest_cell, height * y_axis.smallest_cell)

        left = _left(y_axis)
        figure_width = max(left + n_columns * (width + BETWEEN_X) + (0.8 if scale else 0.15), 4.4)
        everything = [cell for panel in shown for cell in panel.cells]
        planned = n_panels * len(x_axis.values) * len(y_axis.values)
        handles = [*legend, *legend_handles(everything, planned, inches)]
        if scale is not None and scale.chance is not None:
            handles.append(_chance_handle(scale))
        legend_columns = max(1, int((figure_width - 0.2) / 2.6))
        bottom = 0.15 + 0.17 * math.ceil(len(handles) / legend_columns) + _rotated_inches(x_axis, width)
        figure = empty_figure(figure_width, TOP + n_rows * (height + BETWEEN_Y) + bottom)
        raster = len(everything) > RASTER_ABOVE
        for number, panel in enumerate(shown):
            row, column = divmod(number, n_columns)
            axes = add_axes(
                figure, left + column * (width + BETWEEN_X), TOP + row * (height + BETWEEN_Y), width, height
            )
            axes.set_title(panel.title, pad=3)
            draw_cells(axes, panel.cells, x_axis, y_axis, faces_of=faces_of, inches=inches, raster=raster)
            _label_x(axes, x_axis, width, cells.x, shown=number + n_columns >= n_panels)
            _label_y(axes, y_axis, height, cells.y, shown=column == 0)
        if scale is not None:
            bar_height = min(2.4, n_rows * (height + BETWEEN_Y) - BETWEEN_Y)
            _draw_colour_bar(
                figure, add_axes(figure, left + n_columns * (width + BETWEEN_X), TOP, 0.12, bar_height), scale
            )
        _draw_legend(figure, handles, legend_columns)
    return figure


def single(panel: Panel, cells: Cells, scale: Scale) -> Placed:
    """One panel as a picture of its own, without colour bar and legend."""
    with matplotlib.rc_context(STYLE):
        x_axis, y_axis = lay_out(cells.x_values), lay_out(cells.y_values)
        width, height = _single_inches(x_axis), _single_inches(y_axis)
        left = _left(y_axis)
        whole = (left + width + 0.12, TOP + height + 0.36 + _rotated_inches(x_axis, width))
        figure = empty_figure(*whole)
        axes = add_axes(figure, left, TOP, width, height)
        axes.set_title(panel.title, pad=3)
        inches = min(width * x_axis.smallest_cell, height * y_axis.smallest_cell)
        raster = len(panel.cells) > RASTER_ABOVE
        draw_cells(axes, panel.cells, x_axis, y_axis, faces_of=scale.faces_of, inches=inches, raster=raster)
        _label_x(axes, x_axis, width, cells.x, shown=True)
        _label_y(axes, y_axis, height, cells.y, shown=True)
    box = (left / whole[0], TOP / whole[1], width / whole[0], height / whole[1])
    x_edges = tuple((edge - x_axis.edges[0]) / x_axis.span for edge in x_axis.edges)
    y_edges = tuple(1 - (edge - y_axis.edges[0]) / y_axis.span for edge in y_axis.edges)
    return Placed(figure, box, x_edges, y_edges)


def key(cells: Cells, scale: Scale) -> Figure:
    """The colour bar and the legend of panels that are pictures of their own."""
    with matplotlib.rc_context(STYLE):
        axes = [lay_out(values) for values in (cells.x_values, cells.y_values)]
        planned = len(cells.models) * len(cells.facet_values) * len(cells.x_values) * len(cells.y_values)
        handles = legend_handles(cells.cells, planned, min(_single_inches(axis) * axis.smallest_cell for axis in axes))
        handles += [] if scale.chance is None else [_chance_handle(scale)]
        figure = empty_figure(6.4, 0.6 + 0.17 * math.ceil(len(handles) / 2))
        _draw_colour_bar(figure, add_axes(figure, 0.3, 0.08, 4.6, 0.12), scale, orientation="horizontal")
        _draw_legend(figure, handles, 2)
    return figure


def _single_inches(axis: Axis) -> float:
    """The extent of a panel that is a picture of its own."""
    return min(max(0.32 / axis.smallest_cell, 1.3), SINGLE)


def _left(y_axis: Axis) -> float:
    """Inches that the labels of the vertical axis take."""
    return 0.45 + 0.055 * max(len(label) for _, label in y_axis.ticks)


def _panel_inches(axis: Axis, n_columns: int) -> float:
    """The extent of a panel: with room for each cell, within what a page of such panels can hold."""
    most = {1: 4.0, 2: 3.4, 3: 3.0}.get(n_columns, 2.6)
    return min(max(0.32 / axis.smallest_cell, 1.3), most)


def _rotated_inches(axis: Axis, inches: float) -> float:
    """Additional room for names that stand upright because they do not fit side by side; 0 where they do. Numbers
    between others can be guessed and are left out, names cannot."""
    longest = max(len(label) for _, label in axis.ticks)
    fits = len(axis.spaced_ticks(inches, 0.08 + 0.062 * longest)) == len(axis.ticks)
    return 0.0 if fits or axis.scale != "category" else 0.055 * longest


def _label_x(axes: Axes, axis: Axis, inches: float, name: str | None, *, shown: bool) -> None:
    if not shown:  # ticks are what takes longest to draw
        axes.set_xticks([])
        return
    longest = max(len(label) for _, label in axis.ticks)
    ticks = axis.spaced_ticks(inches, 0.08 + 0.062 * longest)
    if _rotated_inches(axis, inches):
        ticks = axis.ticks
        axes.tick_params(axis="x", labelrotation=90, labelsize=6)
    axes.set_xticks([position for position, _ in ticks], [label for _, label in ticks])
    axes.set_xticks(axis.minor_ticks, minor=True)
    if name is not None:
        axes.set_xlabel(name.replace("_", " "), labelpad=2)


def _label_y(axes: Axes, axis: Axis, inches: float, name: str | None, *, shown: bool) -> None:
    if not shown:
        axes.set_yticks([])
        return
    ticks = axis.spaced_ticks(inches, 0.13)
    axes.set_yticks([position for position, _ in ticks], [label for _, label in ticks])
    axes.set_yticks(axis.minor_ticks, minor=True)
    if name is not None:
        axes.set_ylabel(name.replace("_", " "), labelpad=3)


def _draw_colour_bar(figure: Figure, axes: Axes, scale: Scale, orientation: str = "vertical") -> None:
    bar = figure.colorbar(ScalarMappable(scale.norm, scale.colours), cax=axes, orientation=orientation)
    bar.set_label(scale.label, labelpad=4)
    bar.outline.set_linewidth(0.6)
    if scale.chance is not None:
        line = axes.axhline if orientation == "vertical" else axes.axvline
        line(scale.chance, color=ink_on(scale.colours(scale.norm(scale.chance))), **CHANCE_LINE)


def _chance_handle(scale: Scale) -> Line2D:
    label = f"{scale.trivial} ({scale.chance:.3g}), on the colour bar"
    return Line2D([], [], color="black", label=label, **CHANCE_LINE)


def _draw_legend(figure: Figure, handles: Sequence[Artist], n_columns: int) -> None:
    if handles:
        figure.legend(
            handles=list(handles),
            handler_map={Crossed: DrawCrossed()},
            loc="lower left",
            bbox_to_anchor=(0.08 / figure.get_figwidth(), 0.0),
            ncols=n_columns,
            frameon=False,
            fontsize=7,
            handlelength=1.6,
            handleheight=1.1,
            columnspacing=1.6,
        )
