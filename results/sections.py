"""The figures of a report and the tables behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from results import curve_tables, figures, heatmaps, tables
from results.cells import Cells, Table
from results.heatmaps import Panel
from results.importance import axis_importance
from results.lengths import length_cells, lengths
from results.metrics import metric_of
from results.paper_figures import SPREAD, case_table, rgb_heatmaps, spread_table

if TYPE_CHECKING:
    from results.report import Material

MOST_CASE_PANELS = 40
RGB_CASES = 3


@dataclass
class Drawn:
    """Figures by name, in the order of the page, and tables by name.

    Attributes:
        switchable: figures whose models can be switched off.
        off_page: figures that are saved and not shown.
    """

    figures: dict[str, Figure] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    switchable: set[str] = field(default_factory=set)
    off_page: set[str] = field(default_factory=set)

    @property
    def on_page(self) -> set[str]:
        return set(self.figures) - self.off_page


def drawn_sections(material: Material, cells: Cells) -> Drawn:
    """Every figure that the material has numbers for."""
    drawn = Drawn(off_page={"heatmaps"})
    models, metric, chance = cells.models, cells.metric, material.chance
    scale = heatmaps.scale_of(cells, chance, material.trivial)
    drawn.figures["heatmaps"] = heatmaps.panels(heatmaps.panels_of(cells), cells, scale)

    lines: dict[str, Any] = {"models": models, "metric": metric, "chance": chance}
    _lines(drawn, "robustness", tables.robustness_curve(cells), figures.robustness_curves, **lines)
    _lines(drawn, "expected_best", tables.expected_bests(cells), figures.expected_bests, **lines)
    drawn.tables["rate_windows"] = tables.rate_windows(cells, chance)
    pairs = drawn.tables["pairwise"] = tables.pairwise(cells)
    if any(row["n"] for row in pairs):
        drawn.figures["pairwise"] = figures.pairwise_matrix(pairs, models=models, metric=metric)
    shares = drawn.tables["importance"] = axis_importance(material.points, cells)
    if shares:
        drawn.figures["importance"] = figures.importances(shares, models=models)
    if material.curves is not None:
        _of_curves(drawn, material, cells, lines)
    if material.comparison is not None:
        _of_comparison(drawn, material, cells)
    return drawn


def _of_curves(drawn: Drawn, material: Material, cells: Cells, lines: dict[str, Any]) -> None:
    """What is read from learning curves."""
    curves = material.curves
    assert curves is not None
    _lines(drawn, "learning", curve_tables.learning_curves(cells, curves), figures.learning_curves, **lines)
    by_length = lengths(material.points, material.rows, curves)
    if by_length:
        drawn.tables["lengths"] = by_length
        drawn.figures["lengths"] = figures.lengths(by_length, models=cells.models)
        drawn.switchable.add("lengths")
        if (by_both := length_cells(by_length, cells.models)) is not None:
            scale = heatmaps.Scale("final accuracy, best setting", Normalize(0.0, 1.0))
            drawn.figures["length_heatmaps"] = heatmaps.panels(heatmaps.panels_of(by_both), by_both, scale)
    if cells.facet is not None:
        return  # the following have a panel a model
    if material.cases and len(material.cases) * len(cells.models) <= MOST_CASE_PANELS:
        by_case = {case: material.cells(metric_of(f"final_case_{case}", material.cases)) for case in material.cases}
        shown = [Panel(f"{model} · {case}", each.of(model)) for case, each in by_case.items() for model in each.models]
        scale = heatmaps.Scale("final accuracy of a case, training length", Normalize(0.0, 1.0))
        first = next(iter(by_case.values()))
        n_columns = len(cells.models) if len(cells.models) <= 6 else None
        drawn.figures["cases"] = heatmaps.panels(shown, first, scale, n_columns=n_columns)
        drawn.tables["cases"] = [{"case": case, **row} for case, each in by_case.items() for row in each.table()]
    if material.paper and cells.metric.kind == "accuracy":
        pixels = drawn.tables["paper_rgb"] = spread_table(cells, curves)
        drawn.figures["paper_rgb"] = rgb_heatmaps(pixels, cells, SPREAD)
    if material.paper and len(material.cases) == RGB_CASES:
        pixels = drawn.tables["paper_rgb_cases"] = case_table(cells, curves, material.cases)
        drawn.figures["paper_rgb_cases"] = rgb_heatmaps(pixels, cells, [f"case {case}" for case in material.cases])


def _of_comparison(drawn: Drawn, material: Material, cells: Cells) -> None:
    comparison = material.comparison
    assert comparison is not None
    drawn.tables |= {"compared": comparison.table, "compared_models": comparison.shares}
    scale = heatmaps.Scale(f"published {cells.metric.label}", heatmaps.scale_of(cells).norm)
    drawn.figures["published"] = heatmaps.panels(heatmaps.panels_of(comparison.theirs), comparison.theirs, scale)
    means = [cell.mean for cell in comparison.differences.cells if cell.mean is not None]
    scale = heatmaps.difference_scale("ours − published", means)
    drawn.figures["difference"] = heatmaps.panels(
        heatmaps.panels_of(comparison.differences), comparison.differences, scale
    )


def _lines(drawn: Drawn, name: str, table: Table, draw: Any, **options: Any) -> None:
    drawn.tables[name] = table
    if table:
        drawn.figures[name] = draw(table, **options)
        drawn.switchable.add(name)
