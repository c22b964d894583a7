"""What a report's page needs beside its text: pictures as data, and the numbers behind a heatmap for its script."""

import io
import json
import math
import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from results.canvas import STYLE
from results.cells import Cells, Point
from results.curves import Curves, Series
from results.figures import COLOURS
from results.heatmaps import Panel, Placed, Scale, single
from results.words import format_value

DOTS_PER_INCH = 160
ZOOM = 1.35  # figures are drawn for paper, and a screen is read from farther away
MOST_EPOCHS = 16
"""Epochs of a run's curve in the page; the CSV has all that the figures show."""


def png_picture(figure: Figure, png: bytes | None = None) -> dict[str, Any]:
    """A figure as a PNG in a data URI (`png`: where it is saved already), and its width on a screen in inches."""
    if png is None:
        buffer = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        png = buffer.getvalue()
    source = f"data:image/png;base64,{b64encode(png).decode()}"
    return {"source": source, "inches": round(ZOOM * figure.get_figwidth(), 2)}


def inline_svg(svg: str, name: str, figure: Figure) -> dict[str, Any]:
    """An SVG to be part of a page: identifiers of its own, and what belongs to a model marked so (`data-model`)."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'id="model-(\d+)"', r'data-model="\1"', svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<style type="text/css">.*?</style>', "", svg, flags=re.DOTALL)  # it would hold for the whole page
    inches = round(ZOOM * figure.get_figwidth(), 2)
    opening = '<svg style="stroke-linejoin: round; stroke-linecap: butt" preserveAspectRatio="xMidYMid meet"'
    svg = re.sub(
        r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1), count=1
    )
    return {"svg": svg.replace("<svg", opening, 1), "inches": inches}


def panels_of(cells: Cells, scale: Scale) -> list[tuple[int, Any, Placed]]:
    """A picture for each model and facet: the model's number, the facet's value, and the picture."""
    found = []
    for facet in cells.facet_values:
        for number, model in enumerate(cells.models):
            members = cells.of(model, facet)
            if members:
                found.append((number, facet, single(Panel(model, members), cells, scale)))
    return found


def page_data(
    cells: Cells,
    pictures: Sequence[tuple[int, Any, Placed]],
    points: Sequence[Point],
    rows: Mapping[str, Mapping[str, Any]],
    curves: Curves | None,
) -> str:
    """JSON for the page's script: where the cells of each picture are, what is in them, and their runs' curves.

    Accuracies and losses are in thousandths, rounded; a curve has at most `MOST_EPOCHS` epochs.
    """
    metric = cells.metric
    series = curves.series(metric.split, metric.at, metric.case, metric.kind) if curves is not None else None
    epochs = _thinned(series.epochs if series is not None else 0)
    runs = defaultdict(list)
    values = {id_: value for cell in cells.cells for id_, value in zip(cell.ids, cell.values, strict=True)}
    for point in points:
        place = (point["model"], *(name and point.get(name) for name in (cells.facet, cells.x, cells.y)))
        run = _run(point, cells, rows.get(point["id"]), values.get(point["id"]), series, epochs)
        runs[place].append(run)
    numbers = {id(cell): number for number, cell in enumerate(cells.cells)}
    columns = {value: number for number, value in enumerate(cells.x_values)}
    lines = {value: number for number, value in enumerate(cells.y_values)}
    data = {
        "metric": metric.label,
        "kind": metric.kind,
        "names": [name and name.replace("_", " ") for name in (cells.facet, cells.x, cells.y)],
        "models": cells.models,
        "colours": COLOURS,
        "epochs": [int(epoch) + 1 for epoch in epochs],
        "panels": [
            {
                "model": number,
                "box": [round(share, 5) for share in placed.box],
                "x": [round(edge, 5) for edge in placed.x_edges],
                "y": [round(edge, 5) for edge in placed.y_edges],
                "cells": [
                    [columns[cell.x], lines[cell.y], numbers[id(cell)]]
                    for cell in cells.of(cells.models[number])
                    if cell.facet == facet
                ],
            }
            for number, facet, placed in pictures
        ],
        "cells": [
            {
                "at": [_word(value) for value in (cell.facet, cell.x, cell.y)],
                "mean": _thousandths(cell.mean),
                "sd": _thousandths(cell.sd),
                "counts": [cell.n_ok, cell.n_diverged, cell.n_failed, cell.n_missing, cell.n_planned],
                "runs": runs[cell.model, cell.facet, cell.x, cell.y],
            }
            for cell in cells.cells
        ],
    }
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _run(
    point: Point,
    cells: Cells,
    row: Mapping[str, Any] | None,
    value: float | None,
    series: Series | None,
    epochs: np.ndarray,
) -> list[Any]:
    """A run: what tells it apart in its cell, its status, its value and its curve."""
    names = [name for name in ("seed", *cells.averaged_axes) if name in point]
    label = ", ".join(f"{name.replace('_', ' ')} {_word(point[name])}" for name in names)
    if row is None:
        return [label, "missing", None, []]
    curve: list[int | None] = []
    if series is not None and row["status"] in ("ok", "diverged") and series.epochs:
        curve = [_thousandths(float(number)) for number in series.values[series.index[point["id"]]][epochs]]
        while curve and curve[-1] is None:
            curve.pop()
    return [label, row["status"], _thousandths(value), curve]


def _thinned(epochs: int) -> np.ndarray:
    return np.unique(np.linspace(0, epochs - 1, min(epochs, MOST_EPOCHS)).round().astype(int))


def _thousandths(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else round(1000 * value)


def _word(value: Any) -> str | None:
    return None if value is None else format_value(value)
