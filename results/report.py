"""One page that says what came out of a study: a self-contained HTML file, its figures and its tables.

    <out_dir>/index.html             everything below inlined: it can be mailed alone
    <out_dir>/figures/*.png, *.svg
    <out_dir>/tables/*.csv           every number in a figure or a table of the page

Each file is replaced in one step, and the page last.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure

from results import figures, tables
from results.files import save_text
from results.tables import Value
from results.words import duration

TEMPLATES = Path(__file__).with_name("templates")
NOTHING = "\N{EN DASH}"  # in a table, where there is no value
ZOOM = 1.35  # figures are drawn for paper, and a screen is read from farther away
METRIC_MEANS = {
    "final": "after the last planned epoch",
    "best": "best over the recorded epochs, which flatters: it is the maximum of noisy estimates",
    "last": "after the last recorded epoch",
    "train": "on the training sequences, as the running mean over an epoch",
    "eval": "on fresh sequences that no model was trained on",
}


def write_report(
    out_dir: str | Path,
    *,
    title: str,
    description: Sequence[str] = (),
    points: Sequence[Mapping[str, Value]],
    rows: Mapping[str, Mapping[str, Any]],
    x: str | None,
    y: str | None,
    metric: str = "final_eval_accuracy",
    chance: float | None = None,
    facts: Mapping[str, str] | None = None,
    problems: Sequence[str] = (),
    curves: Callable[[list[str]], pa.Table] | None = None,
) -> Path:
    """Writes the report of a study and returns its page.

    `points` and `rows` are as in results.tables. `description` are paragraphs under the title. `facts` are shown at the
    foot, each under its name: a command, a path, or a text of several lines such as the study's file. `problems` are
    those of the store. `chance` is the metric's value for guessing. `curves` gives the learning curves of trials by id,
    as Store.curves does; it is asked for the best cell of each model alone. An older report in `out_dir` is replaced.

    Raises: ValueError as in results.tables.cells; OSError when `out_dir` cannot be written.
    """
    out_dir = Path(out_dir)
    cells = tables.cells(points, rows, x, y, metric)
    robustness = tables.robustness_curve(cells)
    summary = tables.model_summary(cells)
    failures = tables.failures(points, rows)
    found = [rows[point["id"]] for point in points if point["id"] in rows]
    best_ids = tables.ids_of_best_cells(cells)
    learning = tables.learning_curves(cells, rows, curves(best_ids)) if curves and best_ids else []

    for folder in ("figures", "tables"):
        (out_dir / folder).mkdir(parents=True, exist_ok=True)
    for name, table in {
        "cells": cells.table(),
        "robustness": robustness,
        "learning": learning,
        "models": summary,
        "failures": failures,
    }.items():
        tables.to_csv(table, out_dir / "tables" / f"{name}.csv")
    lines: dict[str, Any] = {"models": cells.models, "metric": metric, "chance": chance}
    drawn = {
        "heatmaps": figures.heatmaps(cells, chance=chance) if found else None,
        "robustness": figures.robustness_curves(robustness, **lines) if robustness else None,
        "learning": figures.learning_curves(learning, **lines) if learning else None,
    }
    pictures = {name: _picture(figure, out_dir / "figures" / name) for name, figure in drawn.items() if figure}
    for name in drawn.keys() - pictures.keys():  # an earlier report may have had more to show
        for suffix in ("png", "svg"):
            (out_dir / "figures" / f"{name}.{suffix}").unlink(missing_ok=True)

    facts = dict(facts or {})
    page = _environment().get_template("report.html.j2").render(
        title=title,
        description=description,
        counts=tables.counts(points, rows),
        failures=failures,
        problems=problems,
        pictures=pictures,
        summary=summary,
        cells=cells,
        close=tables.CLOSE,
        n_unmeasured=sum(row["n_unmeasured"] for row in summary),
        metric_means=[METRIC_MEANS[word] for word in metric.split("_") if word in METRIC_MEANS],
        eval_lengths=_distinct(found, "eval_length"),
        lengths=_distinct(found, "length"),
        seeds=len({point.get("seed") for point in points}),
        chance=chance,
        provenance=_provenance(found),
        short_facts={name: text for name, text in facts.items() if "\n" not in text.strip()},
        long_facts={name: text for name, text in facts.items() if "\n" in text.strip()},
    )  # fmt: skip
    save_text(out_dir / "index.html", page)
    return out_dir / "index.html"


def _picture(figure: Figure, stem: Path) -> dict[str, Any]:
    """Saves a figure. Its SVG as a data URI (an image of its own, so that no two share identifiers) and its width."""
    _, svg = figures.save(figure, stem)
    source = f"data:image/svg+xml;base64,{b64encode(svg.read_bytes()).decode()}"
    return {"source": source, "inches": round(ZOOM * figure.get_figwidth(), 2)}


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
    environment.filters |= {
        "number": lambda number: f"{number:,}",
        "percent": lambda share: NOTHING if share is None else f"{100 * share:.1f}",
        "value": lambda value: NOTHING if value is None else tables.format_value(value),
        "words": lambda name: name.replace("_", " "),
        "time": _format_time,
        "duration": duration,
        "metric": tables.metric_label,
    }
    return environment


def _format_time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
