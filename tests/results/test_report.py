"""The report: one file that stands alone, says first what went wrong, and claims nothing that did not run."""

import csv
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from results.cells import cells
from results.compare import compare
from results.curves import Curves
from results.metrics import metric_of
from results.report import Material, write_report


class Page(HTMLParser):
    """Text, tags and references of a page; fails on a tag that is not closed."""

    VOID = ("meta", "img", "br", "link", "hr")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.tags, self.references, self.open, self.described = "", [], [], [], ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.text += " "
        self.references += [
            value for name, value in attrs if name in ("src", "href", "srcset", "action", "poster", "data")
        ]
        self.described += " ".join(value or "" for name, value in attrs if name in ("alt", "aria-label"))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.text += data


def report(tmp_path: Path, points, rows, **options) -> tuple[Page, str]:
    options = {"title": "A study", "x": "width", "y": "learning_rate"} | options
    options["metric"] = metric_of(options.get("metric", "final_eval_accuracy"), options.get("cases", ()))
    animated = options.pop("animated", False)
    html = write_report(tmp_path / "report", Material(points=points, rows=rows, **options), animated).read_text()
    page = Page(html)
    page.text = re.sub(r"\s+", " ", page.text)
    return page, html


def everything(model, x, y, seed):
    """A study in which each outcome occurs."""
    found = {8: ("ok", 0.5), 16: ("diverged", None), 32: ("failed", None), 64: ("oom", None), 128: None}[x]
    return ("ok", 0.75) if model == "nap" else found


def test_a_report_is_one_page_with_its_figures_and_tables_beside_it(make, tmp_path):
    report(tmp_path, *make.grid(["nap", "bert"], [8, 16, 32, 64, 128], [0.1, 0.01], outcome=everything))
    found = sorted(str(path.relative_to(tmp_path / "report")) for path in (tmp_path / "report").rglob("*.*"))
    assert found == [
        "figures/expected_best.png", "figures/expected_best.svg", "figures/heatmaps.png", "figures/heatmaps.svg",
        "figures/importance.png", "figures/importance.svg", "figures/pairwise.png", "figures/pairwise.svg",
        "figures/robustness.png", "figures/robustness.svg", "index.html", "tables/cells.csv",
        "tables/expected_best.csv", "tables/failures.csv", "tables/importance.csv", "tables/models.csv",
        "tables/pairwise.csv", "tables/rate_windows.csv", "tables/robustness.csv",
    ]  # fmt: skip


def test_the_page_refers_to_nothing_outside_itself(make, tmp_path):
    page, html = report(tmp_path, *make.grid(["nap", "sum"], [8, 16], [0.1, 0.01]))
    inside = re.compile(r"data:image/png;base64,|#")
    assert page.references and all(inside.match(reference) for reference in page.references)
    assert not re.search(r"url\((?!#)|@import|xlink:href=\"(?!#)", html)
    assert "default-src 'none'" in html
    identifiers = re.findall(r'\bid="([^"]+)"', html)
    assert len(identifiers) == len(set(identifiers))


def test_counts_come_first_and_then_failures_by_kind_with_their_traceback(make, tmp_path):
    points, rows = make.grid(["nap", "bert"], [8, 16, 32, 64, 128], [0.1, 0.01], outcome=everything)
    page, html = report(tmp_path, points, rows)
    assert "40 planned 24 ok 4 diverged 4 failed 4 out of memory 4 missing" in page.text.replace("  ", " ")
    assert page.text.index("Failures") < page.text.index("Heatmaps") < page.text.index("How robust")
    assert "RuntimeError: it broke" in page.text
    assert re.search(r"<details><summary>.*RuntimeError.*</summary><pre>Traceback", html)


def test_a_study_without_failures_or_problems_has_no_such_sections(make, tmp_path):
    page, _ = report(tmp_path, *make.grid(["nap"], [8, 16], [0.1]))
    assert "Failures" not in page.text
    assert "Problems" not in page.text


def test_problems_of_the_store_are_named(make, tmp_path):
    page, _ = report(tmp_path, *make.grid(["nap"], [8], [0.1]), problems=["trials/a.parquet: truncated."])
    assert "Problems of the store trials/a.parquet: truncated." in page.text


def test_whatever_comes_from_outside_is_escaped(make, tmp_path):
    evil = "<script>alert('&')</script>"
    points, rows = make.grid(
        [evil], [8], [evil], 2, outcome=lambda seed, **_: ("failed", None) if seed else ("ok", 0.5)
    )
    for row in rows.values():
        row.update({"error": evil, "host": evil} if row["status"] == "failed" else {"git_commit": evil})
    options = {
        "title": evil,
        "description": [evil],
        "facts": {evil: evil, "study": f"{evil}\n{evil}"},
        "problems": [evil],
    }
    page, html = report(tmp_path, points, rows, **options)
    assert "<script>alert" not in html and "alert('&')</script" not in html
    assert page.text.count(evil) > 8
    data = json.loads(html.partition('id="data">')[2].partition("</script>")[0])
    assert data["models"] == [evil] and data["cells"][0]["at"] == [None, "8", evil]


def test_the_table_of_models_says_where_each_is_best_and_how_much_of_its_grid_is_close(make, tmp_path):
    accuracy = {8: 0.2, 16: 0.93, 32: 0.95}
    page, _ = report(
        tmp_path,
        *make.grid(["nap"], accuracy, [0.01], 2, outcome=lambda x, seed, **_: ("ok", accuracy[x] + 0.02 * seed)),
    )
    assert re.search(r"nap 70\.3 69\.\d to 71\.\d 66\.7 \(2/3\) 0?.*32 0\.01 96\.0 ± 1\.4, n = 2", page.text)
    assert "nap 3 3 6 0 0 0" in page.text


def test_how_values_are_computed_is_said(make, tmp_path):
    shallow, deep = (make.grid(["nap"], [8, 16], [0.1], depth=depth) for depth in (1, 2))
    page, _ = report(tmp_path, shallow[0] + deep[0], shallow[1] | deep[1], chance=0.261)
    assert "final evaluation accuracy final_eval_accuracy The share of correct answers on fresh sequences" in page.text
    assert "Sequences of length 64 (in training: 128). The dashed line is what is had without learning:" in page.text
    assert "the best constant answer reaches 26.1%." in page.text
    assert "a diverged run counts as 0" in page.text
    assert "they differ in their seed, and in depth, over which a cell averages" in page.text


def test_the_foot_says_what_was_run_by_which_versions_on_which_machines(make, tmp_path):
    points, rows = make.grid(["nap"], [8, 16], [0.1], 2)
    rows[points[0]["id"]] |= {"git_commit": "fffffff", "host": None}
    page, html = report(
        tmp_path, points, rows, facts={"command": "sweep report s", "study": 'title = "s"\ntask = "cases"'}
    )
    foot = page.text[page.text.index("What was run") :]
    assert "0.1.0 abc1234 2.9.0 3" in foot
    assert "0.1.0 fffffff 2.9.0 1" in foot
    assert "ada cpu 3" in foot
    assert "unknown cpu 1" in foot
    assert "summed over trials 8 s" in foot
    assert "2026-03-01 12:00:00 UTC" in foot
    assert "2026-03-01 12:00:01 UTC" in foot
    assert "command sweep report s" in foot
    assert "<details><summary>study</summary><pre>title = &#34;s&#34;\ntask" in html


@pytest.mark.parametrize("models", [["nap"], []])
def test_a_study_of_which_nothing_has_run_still_has_a_page(make, tmp_path, models):
    points, rows = make.grid(models, [8, 16], [0.1], outcome=lambda **_: None)
    page, _ = report(tmp_path, points, rows)
    expected = "No trial of this study has finished yet" if models else "The study plans no trials"
    assert expected in page.text
    assert page.references == [] and "How robust" not in page.text


def test_a_study_of_which_everything_failed_shows_where_and_no_curve(make, tmp_path):
    page, _ = report(tmp_path, *make.grid(["nap"], [8, 16], [0.1], outcome=lambda **_: ("failed", None)))
    assert "Heatmaps" in page.text
    assert not (tmp_path / "report" / "figures" / "robustness.svg").exists()


@pytest.mark.parametrize(("x", "y"), [("width", None), (None, "learning_rate"), (None, None), ("seed", "model")])
def test_any_choice_of_axes_gives_a_page(make, tmp_path, x, y):
    page, _ = report(tmp_path, *make.grid(["nap", "bert"], [8, 16], [0.1, 0.01]), x=x, y=y)
    assert "Heatmap of nap" in page.described and "Heatmap of bert" in page.described


@pytest.fixture
def studied(store, make):
    """A study with curves: points, rows and Curves."""
    points, rows = make.grid(
        ["nap", "sum"], [8, 16, 32], [0.1, 0.01, 0.001], 3,
        outcome=lambda model, x, y, seed: ("diverged", None) if y == 0.1 and seed == 0 else ("ok", x / 64 + seed / 50),
    )  # fmt: skip
    make.append(store, *rows.values())
    return points, rows, Curves(store.curves(), rows)


def test_curves_bring_learning_curves_and_the_papers_picture(studied, tmp_path):
    points, rows, curves = studied
    page, _ = report(tmp_path, points, rows, curves=curves, paper=True)
    assert "Learning The best, the median and the worst cell" in page.text.replace("  ", " ")
    figures = tmp_path / "report" / "figures"
    assert (figures / "learning.svg").exists() and (figures / "paper_rgb.png").exists()
    report(tmp_path, points, rows)
    assert not (figures / "learning.svg").exists() and not (tmp_path / "report" / "tables" / "learning.csv").exists()


def test_an_animation_has_a_frame_an_epoch(studied, tmp_path):
    from PIL import Image

    points, rows, curves = studied
    report(tmp_path, points, rows, curves=curves, animated=True)
    with Image.open(tmp_path / "report" / "figures" / "evolution.gif") as image:
        assert image.n_frames == 3 and image.info["duration"] == 250


def test_every_run_of_a_cell_is_in_the_page_with_its_curve(studied, tmp_path):
    points, rows, curves = studied
    _, html = report(tmp_path, points, rows, curves=curves)
    data = json.loads(html.partition('id="data">')[2].partition("</script>")[0])
    (panel,) = [panel for panel in data["panels"] if data["models"][panel["model"]] == "sum"]
    assert len(panel["x"]) == len(panel["y"]) == 4 and panel["y"][0] == 1 and panel["x"][0] == 0
    column, row, number = panel["cells"][2]
    cell = data["cells"][number]
    assert (column, row, cell["at"]) == (0, 0, [None, "8", "0.001"]) or cell["at"] == [None, "8", "0.1"]
    of_high = next(cell for cell in data["cells"] if cell["at"] == [None, "16", "0.1"])
    assert of_high["counts"] == [2, 1, 0, 0, 3]
    assert of_high["runs"][0] == ["seed 0", "diverged", None, [100, 200, 300]]
    assert of_high["runs"][2] == ["seed 2", "ok", 290, [100, 200, 300]]


def test_a_comparison_is_shown_with_verdicts_and_shares(studied, tmp_path):
    import pyarrow as pa

    points, rows, curves = studied
    published = pa.Table.from_pylist(
        [
            {"task": "cases", "model": "nap", "axis": "width", "axis_value": float(x), "learning_rate": 0.01,
             "run": run, "final_eval_accuracy": (x / 64 if x != 32 else 0.9) + run / 100}
            for x in (8, 16, 32, 64)
            for run in range(3)
        ]
    )  # fmt: skip
    comparison = compare(cells(points, rows, "width", "learning_rate"), published, "cases")
    page, _ = report(tmp_path, points, rows, curves=curves, comparison=comparison)
    assert "nap 66.7 2 0 1 0" in page.text
    with open(tmp_path / "report" / "tables" / "compared.csv", newline="") as file:
        verdicts = {row["width"]: row["verdict"] for row in csv.DictReader(file)}
    assert verdicts == {"8": "within", "16": "within", "32": "below"}
    assert (tmp_path / "report" / "figures" / "difference.png").exists()


@pytest.mark.parametrize("metric", ["final_eval_loss", "best_eval_accuracy", "paper_heatmap", "final_eval_case_first"])
def test_every_kind_of_metric_gives_a_page(studied, tmp_path, metric):
    points, rows, curves = studied
    for number, row in enumerate(rows.values()):
        row |= {"final_eval_loss": number / 10 if row["status"] == "ok" else None}
    page, _ = report(tmp_path, points, rows, curves=curves, metric=metric, cases=("first",))
    assert metric in page.text and "How robust" in page.text


def test_a_facet_has_its_own_heatmaps(make, tmp_path):
    shallow, deep = (make.grid(["nap", "sum"], [8, 16], [0.1], depth=depth) for depth in (1, 2))
    page, html = report(tmp_path, shallow[0] + deep[0], shallow[1] | deep[1], facet="depth")
    assert "depth 1" in page.text and "depth 2" in page.text and "also varies" not in page.text
    assert html.count('<figure class="panel"') == 4


@pytest.mark.parametrize("outcome", [("ok", 0.5), ("diverged", None)])
def test_cells_that_are_all_alike_and_models_that_always_diverge_are_no_trouble(make, tmp_path, outcome):
    page, _ = report(tmp_path, *make.grid(["nap", "sum"], [8, 16], [0.1, 0.01], outcome=lambda **_: outcome))
    assert "How robust" in page.text and "nan" not in page.text.lower()


def test_what_is_not_a_reports_stays_in_its_folder(make, tmp_path):
    for name in ("figures/photo.png", "tables/data.csv"):
        (tmp_path / "report" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "report" / name).write_text("mine")
    report(tmp_path, *make.grid(["nap"], [8], [0.1]))
    assert (tmp_path / "report/figures/photo.png").exists() and (tmp_path / "report/tables/data.csv").exists()


@pytest.mark.parametrize("name", ["a$\\frac$b", "_mine", "x" * 60])
def test_a_model_may_have_any_name(make, tmp_path, name):
    _, html = report(tmp_path, *make.grid([name, "nap"], [8, 16], [0.1, 0.01]))
    drawing = html.partition('<div class="drawing"')[2].partition("</svg>")[0]
    assert drawing.count('data-model="0"') == drawing.count('data-model="1"') > 2


def test_writing_again_replaces_the_report_and_leaves_no_temporary_file(make, tmp_path):
    report(tmp_path, *make.grid(["nap"], [8, 16], [0.1]), title="First")
    page, _ = report(tmp_path, *make.grid(["nap"], [8, 16], [0.1]), title="Second")
    assert "Second" in page.text
    assert not any(tmp_path.rglob(".*"))


def test_a_report_needs_no_pandas_and_no_torch():
    code = "import sys, results.report; sys.exit(bool({'pandas', 'torch', 'matplotlib.pyplot'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0
