"""The commands that look at results. One short function a command; what they do is elsewhere."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.errors import UsageError
from sweep.options import STORE, SetOption, StoreOption, StudyArgument, command_line, store_path

if TYPE_CHECKING:
    from results.report import Material
    from sweep.study import Study

METRIC = "final_eval_accuracy"
COMPARED = "best_eval_accuracy"

MetricOption = Annotated[str, typer.Option(help="What cells show; an unknown name lists them all.")]
XOption = Annotated[str | None, typer.Option("--x", help="Axis of the heatmaps; by default the study's.")]
YOption = Annotated[str | None, typer.Option("--y", help="Axis of the heatmaps; by default the study's.")]
FacetOption = Annotated[str | None, typer.Option(help="A third axis: heatmaps for each of its values.")]
OutOption = Annotated[Path | None, typer.Option(help="Folder to write; by default reports/STUDY.")]
PaperOption = Annotated[
    bool, typer.Option("--paper", help="Also draw the NAP paper's own picture: statistics in red, green and blue.")
]
AnimateOption = Annotated[bool, typer.Option("--animate", help="Also write the heatmaps epoch by epoch, as a GIF.")]
PublishedOption = Annotated[Path, typer.Option(help="Published results, from `sweep import-published`.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command()(report)
    app.command()(compare)
    app.command("import-published")(import_published)
    app.command()(export)
    app.command("init-scaling")(init_scaling)


def report(
    study: StudyArgument,
    store: StoreOption = STORE,
    sets: SetOption = [],  # noqa: B006  typer copies it
    metric: MetricOption = METRIC,
    x: XOption = None,
    y: YOption = None,
    facet: FacetOption = None,
    animate: AnimateOption = False,
    paper: PaperOption = False,
    published: Annotated[Path | None, typer.Option(help="Published results to lay beside; see `compare`.")] = None,
    out: OutOption = None,
) -> None:
    """Write one self-contained HTML page of a study's results, its figures and its tables."""
    from dataclasses import replace

    from sweep.show import say

    loaded, material = _material(study, store, sets, metric, x, y, facet)
    material = replace(material, paper=paper)
    if published is not None:
        material = replace(material, comparison=_comparison(material, published, loaded))
    say(_written(loaded, material, out, animate))


def compare(
    study: StudyArgument,
    published: PublishedOption,
    store: StoreOption = STORE,
    sets: SetOption = [],  # noqa: B006
    metric: MetricOption = COMPARED,
    x: XOption = None,
    y: YOption = None,
    out: OutOption = None,
) -> None:
    """Lay a study's cells beside published ones: on the terminal, and in the report."""
    from dataclasses import replace

    from sweep.show import say, show_comparison

    loaded, material = _material(study, store, sets, metric, x, y, None)
    found = _comparison(material, published, loaded)
    show_comparison(found, material.x or "x")
    say(_written(loaded, replace(material, comparison=found), out))


def import_published(
    folder: Annotated[Path, typer.Argument(metavar="dir", help="A clone of OliverRichter/normalized-attention.")],
    out: Annotated[Path, typer.Option(help="Parquet file to write.")],
) -> None:
    """Read the NAP paper's result files into one Parquet table."""
    from results.published import PublishedError, read_published, save_published
    from sweep.show import say

    try:
        table = read_published(folder, _note)
        save_published(table, out)
    except PublishedError as error:
        raise UsageError(str(error)) from None
    say(f"{out}: {table.num_rows:,} published models")


def export(
    study: StudyArgument,
    store: StoreOption = STORE,
    sets: SetOption = [],  # noqa: B006
    csv: Annotated[Path | None, typer.Option(help="CSV file to write: a row a trial.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Parquet file to write: a row a trial.")] = None,
    optuna: Annotated[str | None, typer.Option(help="Optuna storage, as in sqlite:///study.db.", metavar="URL")] = None,
    metric: Annotated[str, typer.Option(help="Column that is the value of Optuna's trials.")] = METRIC,
) -> None:
    """Take a study's results elsewhere: as CSV, as Parquet, or as Optuna studies for optuna-dashboard."""
    from results.store import Store
    from sweep.exporting import export_study
    from sweep.show import say
    from sweep.study import Study

    if not (csv or parquet or optuna):
        raise UsageError("say where to: --csv FILE, --parquet FILE or --optuna URL")
    loaded = Study.load(study, sets)
    for line in export_study(loaded, Store(store_path(store)), csv, parquet, optuna, metric):
        say(line)


def init_scaling(
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("reports/init-scaling"),
    width: Annotated[int, typer.Option(help="Features of a token.", min=1, max=1024)] = 128,
    seed: Annotated[int, typer.Option(help="Of the random tokens.", min=0)] = 0,
) -> None:
    """How do outputs at the start depend on how many tokens are aggregated? The paper's experiment, for every mixer."""
    from sweep.init_scaling import scaling_table, show_scaling, write_scaling
    from sweep.show import say

    table = scaling_table(width=width, seed=seed, skipped=_note)
    show_scaling(table)
    for path in write_scaling(table, out):
        say(str(path))


def _note(line: str) -> None:
    """Says what was left out."""
    print(line, file=sys.stderr)


def _material(
    study: str, store: str, sets: list[str], metric: str, x: str | None, y: str | None, facet: str | None
) -> "tuple[Study, Material]":
    from results.store import Store
    from sweep.reporting import View, material_of
    from sweep.study import Study

    loaded = Study.load(study, sets)
    return loaded, material_of(loaded, Store(store_path(store)), View(metric, x, y, facet), command_line())


def _comparison(material: "Material", published: Path, study: "Study") -> Any:
    from results.compare import CompareError
    from results.published import PublishedError, load_published
    from sweep.reporting import comparison_of

    try:
        return comparison_of(material, load_published(published), study)
    except (PublishedError, CompareError) as error:
        raise UsageError(str(error)) from None


def _written(study: "Study", material: "Material", out: Path | None, animated: bool = False) -> str:
    from sweep.reporting import write_study_report

    if out is not None and not str(out).strip("."):
        raise UsageError("--out: name a folder for the report")
    return str(write_study_report(material, out or Path("reports") / study.name, animated))
