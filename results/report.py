"""One page that says what came out of a study: a self-contained HTML file, its figures and its tables.

    <out_dir>/index.html             everything below inlined: it can be mailed alone
    <out_dir>/figures/*.png, *.svg
    <out_dir>/tables/*.csv           every number in a figure or a table of the page

Each file is replaced in one step, and the page last.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from results import heatmaps, outcomes, tables
from results.animation import animate
from results.canvas import save
from results.cells import Cells, Value, cells
from results.compare import Comparison
from results.csv_files import to_csv
from results.curve_tables import evolution
from results.curves import Curves
from results.files import save_text
from results.metrics import Metric
from results.page import inline_svg, page_data, panels_of, png_picture
from results.sections import Drawn, drawn_sections
from results.words import duration, format_value

TEMPLATES = Path(__file__).with_name("templates")
FIGURES = {"heatmaps", "robustness", "expected_best", "pairwise", "importance", "learning", "cases", "lengths",
           "length_heatmaps", "paper_rgb", "paper_rgb_cases", "published", "difference", "evolution"}  # fmt: skip
TABLES = {"cells", "models", "failures", "robustness", "expected_best", "rate_windows", "pairwise", "importance",
          "learning", "cases", "lengths", "paper_rgb", "paper_rgb_cases", "compared", "compared_models"}  # fmt: skip
"""Names of all that a report may write; nothing else in its folders is touched."""

NOTHING = "\N{EN DASH}"  # in a table, where there is no value


@dataclass(frozen=True)
class Material:
    """What a report is made of.

    Attributes:
        description: paragraphs under the title.
        points, rows: as in results.cells.
        x, y, facet: axes of the heatmaps, and by which they are split.
        cases: of the study's task, where its trials were judged by them.
        chance: the metric's value for the best trivial answer.
        trivial: what that answer is.
        curves: learning curves of the rows.
        facts: shown at the foot, each under its name: a command, a path, or a text of several lines.
        problems: of the store.
        comparison: with published results.
        paper: whether to draw the NAP paper's own picture as well.
    """

    title: str
    points: Sequence[Mapping[str, Value]]
    rows: Mapping[str, Mapping[str, Any]]
    x: str | None
    y: str | None
    metric: Metric
    facet: str | None = None
    description: Sequence[str] = ()
    cases: Sequence[str] = ()
    chance: float | None = None
    trivial: str = heatmaps.TRIVIAL
    curves: Curves | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[str] = ()
    comparison: Comparison | None = None
    paper: bool = False

    def cells(self, metric: Metric | None = None) -> Cells:
        """The study's cells, for this metric or another."""
        return cells(self.points, self.rows, self.x, self.y, metric or self.metric, self.curves, self.facet)


def write_report(out_dir: str | Path, material: Material, animated: bool = False) -> Path:
    """Writes the report of a study and returns its page. An older report in `out_dir` is replaced.

    Args:
        animated: whether to write figures/evolution.gif, the heatmaps epoch by epoch.

    Raises: ValueError as in results.cells.cells; OSError when `out_dir` cannot be written.
    """
    out_dir = Path(out_dir)
    shown = material.cells()
    found = [material.rows[point["id"]] for point in material.points if point["id"] in material.rows]
    summary = tables.model_summary(shown, material.chance)
    failures = outcomes.failures(material.points, material.rows)
    drawn = drawn_sections(material, shown) if found else Drawn()
    named = {"cells": shown.table(), "models": summary, "failures": failures, **drawn.tables}
    folder = _folder(out_dir / "tables")
    for name, table in named.items():
        to_csv(table, folder / f"{name}.csv")
    _clear(folder, TABLES - set(named), (".csv",))
    sections = _saved(drawn, out_dir)

    scale = heatmaps.scale_of(shown, material.chance, material.trivial)
    pictures = panels_of(shown, scale) if found else []
    if animated and found and material.curves is not None:
        animate(shown, evolution(shown, material.curves), scale, out_dir / "figures" / "evolution.gif")
    facts = dict(material.facts)
    page = _environment().get_template("report.html.j2").render(
        title=material.title,
        description=material.description,
        counts=outcomes.counts(material.points, material.rows),
        failures=failures,
        problems=material.problems,
        panels=[(index, number, facet, png_picture(placed.figure))
                for index, (number, facet, placed) in enumerate(pictures)],
        key=png_picture(heatmaps.key(shown, scale)) if found else None,
        data=page_data(shown, pictures, material.points, material.rows, material.curves) if found else "{}",
        sections=sections,
        tables=drawn.tables,
        summary=summary,
        threshold=tables.threshold(shown, material.chance),
        cells=shown,
        metric=material.metric,
        comparison=material.comparison,
        close=tables.CLOSE,
        n_unmeasured=sum(row["n_unmeasured"] for row in summary),
        eval_lengths=_distinct(found, "eval_length"),
        lengths=_distinct(found, "length"),
        seeds=len({point.get("seed") for point in material.points}),
        chance=material.chance,
        trivial=material.trivial,
        provenance=_provenance(found),
        short_facts={name: text for name, text in facts.items() if "\n" not in text.strip()},
        long_facts={name: text for name, text in facts.items() if "\n" in text.strip()},
    )  # fmt: skip
    _folder(out_dir)
    save_text(out_dir / "index.html", page)
    return out_dir / "index.html"


def _saved(drawn: Drawn, out_dir: Path) -> dict[str, dict[str, Any]]:
    """Saves figures, and gives what the page shows of them."""
    folder = _folder(out_dir / "figures")
    sections = {}
    for name, figure in drawn.figures.items():
        png, svg = save(figure, folder / name)
        if name in drawn.on_page:
            lines = name in drawn.switchable
            sections[name] = (
                inline_svg(svg.read_text("utf-8"), name, figure) if lines else png_picture(figure, png.read_bytes())
            )
    _clear(folder, FIGURES - set(drawn.figures), (".png", ".svg", ".gif"))
    return sections


def _clear(folder: Path, names: Iterable[str], endings: Sequence[str]) -> None:
    """Deletes what an earlier report left of these names: it may have had more to show."""
    for name in names:
        for ending in endings:
            (folder / f"{name}{ending}").unlink(missing_ok=True)


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _provenance(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the rows were made by: how many trials by each combination of versions, device and host, and when."""

    def combinations(*names: str) -> list[tuple[tuple, int]]:
        return Counter(tuple(row.get(name) or "unknown" for name in names) for row in rows).most_common()

    finished = [row["finished_at"] for row in rows if row.get("finished_at")]
    return {
        "versions": combinations("sweep_version", "git_commit", "torch_version"),
        "machines": combinations("host", "device"),
        "wall_seconds": sum(row.get("wall_seconds") or 0.0 for row in rows),
        "train_flops": sum(row.get("train_flops") or 0.0 for row in rows),
        "first": min(finished, default=None),
        "last": max(finished, default=None),
    }


def _distinct(rows: Iterable[Mapping[str, Any]], name: str) -> list:
    return sorted({row[name] for row in rows if row.get(name) is not None})


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "number": lambda number: f"{number:,}",
        "percent": lambda share: NOTHING if share is None else f"{100 * share:.1f}",
        "signed": lambda share: NOTHING if share is None else f"{100 * share:+.1f}",
        "decimal": lambda value: NOTHING if value is None else f"{value:.2f}",
        "probability": lambda p: NOTHING if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}",
        "value": lambda value: NOTHING if value is None else format_value(value),
        "words": lambda name: name.replace("_", " "),
        "time": _format_time,
        "duration": duration,
    }
    environment.filters |= filters
    return environment


def _format_time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
