"""Where the values of an axis stand in a heatmap, where its cells meet, and which ticks it gets: numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from results.cells import Value, is_number
from results.words import format_value

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

MOST_DECADES = 20
"""Ticks of a logarithmic axis, at powers of ten; a longer one has none between them."""


@dataclass(frozen=True)
class Axis:
    """Positions are in units of the plot: log10 of a value, the value itself, or its number in the order given."""

    scale: str  # log, linear or category
    values: tuple[Value, ...]
    positions: tuple[float, ...]
    edges: tuple[float, ...]  # of the cells, one more than positions
    ticks: tuple[tuple[float, str], ...]  # position and label
    minor_ticks: tuple[float, ...] = ()

    @property
    def span(self) -> float:
        return self.edges[-1] - self.edges[0]

    @property
    def smallest_cell(self) -> float:
        """The extent of the smallest cell, as a share of the axis."""
        return min(high - low for low, high in pairwise(self.edges)) / self.span

    def spaced_ticks(self, inches: float, inches_between: float) -> tuple[tuple[float, str], ...]:
        """The ticks whose labels fit when the axis is `inches` long and labels want `inches_between`."""
        shown: list[tuple[float, str]] = []
        for position, label in self.ticks:
            if not shown or (position - shown[-1][0]) / self.span * inches >= inches_between * 0.999:
                shown.append((position, label))
        return tuple(shown)


def lay_out(values: Sequence[Value]) -> Axis:
    """The axis of `values` (distinct, and ascending where they are numbers).

    Positive numbers stand on a log scale when they are spaced more evenly there, or lone two a factor of 8 apart;
    other numbers on a linear one; anything else at equal distances. Cells meet half-way between neighbours (on a log
    scale: at the geometric mean).
    """
    values = tuple(values) or (None,)
    if not all(map(is_number, values)) or len(values) == 1:
        positions = tuple(map(float, range(len(values))))
        labels = ["" if value is None and len(values) == 1 else format_value(value) for value in values]
        return Axis("category", values, positions, _edges(positions), tuple(zip(positions, labels, strict=True)))
    if not _is_logarithmic(values):
        positions = tuple(map(float, values))
        ticks = tuple((position, format_value(value)) for position, value in zip(positions, values, strict=True))
        return Axis("linear", values, positions, _edges(positions), ticks)
    positions = tuple(map(math.log10, values))
    edges = _edges(positions)
    decades = range(math.ceil(edges[0] - 1e-9), math.floor(edges[-1] + 1e-9) + 1)
    few = len(values) <= 12 or all(float(value).hex().startswith("0x1.0000000000000p") for value in values)
    if len(decades) < 2 or (few and all(value == int(value) for value in values)):
        ticks = tuple((position, format_value(value)) for position, value in zip(positions, values, strict=True))
        return Axis("log", values, positions, edges, ticks)
    between = range(2, 10) if len(decades) <= MOST_DECADES else ()
    minor = [decade + math.log10(digit) for decade in range(decades[0] - 1, decades[-1] + 1) for digit in between]
    every = -(-len(decades) // MOST_DECADES)
    return Axis(
        "log",
        values,
        positions,
        edges,
        ticks=tuple((float(decade), _power_of_ten(decade)) for decade in decades[::every]),
        minor_ticks=tuple(position for position in minor if edges[0] <= position <= edges[-1]),
    )


def _is_logarithmic(values: Sequence[float]) -> bool:
    if min(values) <= 0:
        return False
    if len(values) == 2:
        return max(values) / min(values) >= 8
    return _unevenness(np.log(values)) < _unevenness(np.array(values, float))


def _unevenness(positions: np.ndarray) -> float:
    gaps = np.diff(positions)
    return float(gaps.std() / gaps.mean())


def _edges(positions: Sequence[float]) -> tuple[float, ...]:
    if len(positions) == 1:
        return (positions[0] - 0.5, positions[0] + 0.5)
    middles = [(low + high) / 2 for low, high in pairwise(positions)]
    return (2 * positions[0] - middles[0], *middles, 2 * positions[-1] - middles[-1])


def _power_of_ten(exponent: int) -> str:
    """1, 0.1, 0.01, 0.001, and from there on 10 with its exponent."""
    return f"{10.0**exponent:g}" if -3 <= exponent <= 3 else "10" + str(exponent).translate(SUPERSCRIPTS)
