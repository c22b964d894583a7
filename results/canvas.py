"""What all figures share: their style, a figure without pyplot, and saving the same figure as the same bytes."""

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from results.files import save_atomically

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same figure on every machine
    "font.size": 8.0,
    "axes.titlesize": 9.0,
    "axes.linewidth": 0.6,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.4,
    "ytick.minor.size": 1.4,
    "hatch.linewidth": 0.7,
    "svg.hashsalt": "sweep",
    "text.parse_math": False,  # a model may be named a$b$
    "figure.facecolor": "white",
}


def empty_figure(width: float, height: float) -> Figure:
    """A figure of this size, in inches."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def add_axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a place given in inches from the figure's upper left corner."""
    figure_width, figure_height = figure.get_size_inches()
    bottom = figure_height - top - height
    return figure.add_axes((left / figure_width, bottom / figure_height, width / figure_width, height / figure_height))


def save(figure: Figure, stem: Path) -> tuple[Path, Path]:
    """Saves `<stem>.png` (150 dots an inch) and `<stem>.svg`, atomically. The same figure gives the same bytes."""
    png, svg = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    with matplotlib.rc_context(STYLE):
        save_atomically(png, lambda file: figure.savefig(file, format="png", dpi=150, metadata={"Software": None}))
        save_atomically(svg, lambda file: figure.savefig(file, format="svg", dpi=150, metadata={"Date": None}))
    return png, svg
