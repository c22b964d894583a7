"""The commands that look at results: what they take, and what they say to what they cannot take."""

import csv
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sweep.conftest import TINY

CASES = TINY.replace('task = "mode"', 'task = "cases"').replace('title = "tiny"', 'title = "cases"').replace(
    "[grid]", "samples_per_case = 4\n[grid]\ndepth = [1, 2]"
)  # fmt: skip


@pytest.fixture
def ran(folder, sweep):
    """A folder in which two tiny studies have run."""
    (folder / "cases.toml").write_text(CASES)
    assert sweep("run", "tiny.toml")[0] == sweep("run", "cases.toml")[0] == 0
    return folder


def columns(path: str) -> dict[str, list[str]]:
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_a_report_shows_the_metric_and_the_axes_that_are_asked_for(ran, sweep):
    code, out, _ = sweep(
        "report", "cases.toml", "--metric", "final_case_first", "--x", "depth", "--paper", "--out", "page"
    )
    assert code == 0 and out.strip() == "page/index.html"
    assert "final accuracy of case first at training length" in Path("page/index.html").read_text()
    assert set(columns("page/tables/cells.csv")["depth"]) == {"1", "2"}
    assert {path.name for path in Path("page/figures").iterdir()} >= {"cases.png", "paper_rgb_cases.svg"}


def test_several_evaluation_lengths_have_their_figure(folder, sweep):
    Path("long.toml").write_text(TINY.replace("[grid]", "eval_lengths = [4, 8, 64]\n[grid]"))
    assert sweep("run", "long.toml")[0] == 0 and sweep("report", "long.toml")[0] == 0
    assert set(columns("reports/long/tables/lengths.csv")["eval_length"]) == {"4", "8", "16", "64"}
    assert Path("reports/long/figures/lengths.png").exists()
    assert "Other lengths" in Path("reports/long/index.html").read_text()


def test_a_facet_splits_heatmaps_and_without_it_the_page_says_what_is_averaged(ran, sweep):
    assert sweep("report", "cases.toml", "--x", "learning_rate", "--y", "depth", "--out", "one")[0] == 0
    assert (
        sweep("report", "cases.toml", "--y", "learning_rate", "--facet", "depth", "--animate", "--out", "two")[0] == 0
    )
    two = Path("two/index.html").read_text()
    assert two.count('<figure class="panel"') == 4 and "also varies" not in two
    assert Path("two/figures/evolution.gif").exists()
    depths = CASES.replace("depth = [1, 2]", "depth = [1, 2]\nwidth = [8, 16]").replace("width = 8\n", "")
    Path("deep.toml").write_text(depths)
    assert sweep("report", "deep.toml", "--x", "width", "--out", "three")[0] == 0
    assert "The study also varies depth" in Path("three/index.html").read_text()


BAD = [
    (
        ["report", "tiny.toml", "--metric", "acuracy"],
        "--metric acuracy: no metric 'acuracy' here: one of final_eval",
    ),
    (["report", "tiny.toml", "--metric", "final_case_first"], "no metric 'final_case_first' here"),
    (["report", "tiny.toml", "--x", "width"], "--x width: tiny sweeps model, learning_rate, seed"),
    (["report", "tiny.toml", "--x", "learning_rate", "--y", "learning_rate"], "has an axis twice"),
    (["report", "tiny.toml", "--published", "none.parquet"], "none.parquet"),
    (["compare", "tiny.toml", "--published", "tiny.toml"], "tiny.toml"),
    (["export", "tiny.toml"], "say where to: --csv FILE, --parquet FILE or --optuna URL"),
    (["export", "tiny.toml", "--csv", "nowhere/to/file.csv"], "nowhere/to/file.csv"),
    (["export", "tiny.toml", "--optuna", "nonsense"], "nonsense"),
    (["export", "quickstart", "--csv", "out.csv"], "store has no trial of quickstart yet: sweep run quickstart"),
    (["import-published", "nowhere", "--out", "out.parquet"], "nowhere"),
    (["import-published", ".", "--out", "out.parquet"], "no result files"),
    (["init-scaling", "--width", "0"], "--width"),
]


def test_what_cannot_be_done_is_said_in_a_line_and_leaves_no_trace(ran, sweep):
    before = sorted(os.listdir())
    for arguments, words in BAD:
        code, out, error = sweep(*arguments)
        assert code == 2 and out == "" and error.count("\n") == 1 and error.startswith("sweep: ") and words in error
        assert sorted(os.listdir()) == before


def published(learning_rate: float = 0.01) -> None:
    """A table of published results beside the tiny study."""
    rows = [
        {"task": "mode", "model": "nap", "axis": "width", "axis_value": 8.0, "learning_rate": learning_rate, "run": run,
         "best_eval_accuracy": 0.1 + run / 10}
        for run in range(3)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), "published.parquet")


def test_a_study_is_compared_with_published_results_on_the_terminal_and_in_its_report(folder, sweep):
    Path("wide.toml").write_text(TINY.replace("width = 8\n", "").replace("[grid]", "[grid]\nwidth = [8, 16]"))
    sweep("run", "wide.toml")
    published()
    code, out, _ = sweep("compare", "wide.toml", "--published", "published.parquet")
    assert code == 0 and "nap: " in out and " of 1 cells " in out and "reports/wide/index.html" in out
    assert columns("reports/wide/tables/compared.csv")["n_theirs"] == ["3"]
    assert "Beside the published results" in Path("reports/wide/index.html").read_text()
    published(learning_rate=0.5)
    code, _, error = sweep("compare", "wide.toml", "--published", "published.parquet")
    assert code == 2 and "none of this study's models" in error


def test_results_are_taken_elsewhere(ran, sweep):
    code, out, _ = sweep(
        "export", "tiny.toml", "--csv", "tiny.csv", "--parquet", "tiny.parquet", "--optuna", "sqlite:///tiny.db"
    )
    assert code == 0 and "tiny.csv: 8 trials" in out and "tiny.parquet: 8 trials" in out
    assert len(columns("tiny.csv")["id"]) == pq.read_table("tiny.parquet").num_rows == 8
    assert "tiny/nap: 4 trials" in out
    code, out, _ = sweep("export", "tiny.toml", "--optuna", "sqlite:///tiny.db")
    assert code == 0 and "tiny/nap: 0 trials (and 4 there before)" in out


def test_the_initialisation_experiment_is_a_table_a_figure_and_a_csv(folder, sweep):
    code, out, _ = sweep("init-scaling", "--width", "16", "--out", "scaling")
    assert code == 0 and "softmax attention" in out and "nap" in out
    assert {path.suffix for path in Path("scaling").iterdir()} == {".png", ".svg", ".csv"}
