"""The report: one file that stands alone, says first what went wrong, and claims nothing that did not run."""

import base64
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from results.report import write_report


class Page(HTMLParser):
    """Text, tags and references of a page; fails on a tag that is not closed."""

    VOID = ("meta", "img", "br", "link", "hr")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.tags, self.references, self.open = "", [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.text += " "
        self.references += [
            value for name, value in attrs if name in ("src", "href", "srcset", "action", "poster", "data")
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data


def report(tmp_path: Path, points, rows, **options) -> tuple[Page, str]:
    options = {"title": "A study", "x": "width", "y": "learning_rate"} | options
    html = write_report(tmp_path / "report", points=points, rows=rows, **options).read_text()
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
        "figures/heatmaps.png", "figures/heatmaps.svg", "figures/robustness.png", "figures/robustness.svg",
        "index.html", "tables/cells.csv", "tables/failures.csv", "tables/learning.csv", "tables/models.csv",
        "tables/robustness.csv",
    ]  # fmt: skip


def test_the_page_refers_to_nothing_outside_itself_and_needs_no_script(make, tmp_path):
    page, html = report(tmp_path, *make.grid(["nap"], [8, 16], [0.1, 0.01]))
    assert len(page.references) == 2
    assert all(reference.startswith("data:image/svg+xml;base64,") for reference in page.references)
    assert "script" not in page.tags
    assert not re.search(r"url\(|@import", html)
    svg = base64.b64decode(page.references[0].split(",")[1]).decode()
    assert not re.search(r'href="(?!#|data:)', svg)


def test_counts_come_first_and_then_failures_by_kind_with_their_traceback(make, tmp_path):
    points, rows = make.grid(["nap", "bert"], [8, 16, 32, 64, 128], [0.1, 0.01], outcome=everything)
    page, html = report(tmp_path, points, rows)
    assert "40 planned 24 ok 4 diverged 4 failed 4 out of memory 4 missing" in page.text.replace("  ", " ")
    assert page.text.index("Failures") < page.text.index("Heatmaps") < page.text.index("Models")
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
    assert "<script" not in html
    assert page.text.count(evil) > 8


def test_the_table_of_models_says_where_each_is_best_and_how_much_of_its_grid_is_close(make, tmp_path):
    accuracy = {8: 0.2, 16: 0.93, 32: 0.95}
    page, _ = report(
        tmp_path,
        *make.grid(["nap"], accuracy, [0.01], 2, outcome=lambda x, seed, **_: ("ok", accuracy[x] + 0.02 * seed)),
    )
    assert "nap 32 0.01 96.0 1.4 2 70.3 66.7 (2/3) 6 0 0 0" in page.text


def test_how_values_are_computed_is_said(make, tmp_path):
    shallow, deep = (make.grid(["nap"], [8, 16], [0.1], depth=depth) for depth in (1, 2))
    page, _ = report(tmp_path, shallow[0] + deep[0], shallow[1] | deep[1], chance=0.261)
    assert "final evaluation accuracy The share of correct answers, after the last planned epoch" in page.text
    assert "Sequences of length 64 (in training: 128). The best constant answer reaches 26.1%." in page.text
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
    assert page.references == []


def test_a_study_of_which_everything_failed_shows_where_and_no_curve(make, tmp_path):
    page, _ = report(tmp_path, *make.grid(["nap"], [8, 16], [0.1], outcome=lambda **_: ("failed", None)))
    assert "Heatmaps" in page.text
    assert "Robustness" not in page.text


@pytest.mark.parametrize(("x", "y"), [("width", None), (None, "learning_rate"), (None, None), ("seed", "model")])
def test_any_choice_of_axes_gives_a_page(make, tmp_path, x, y):
    page, _ = report(tmp_path, *make.grid(["nap", "bert"], [8, 16], [0.1, 0.01]), x=x, y=y)
    assert len(page.references) == 2


def test_the_curves_of_the_best_cells_alone_are_asked_for_and_drawn(store, make, tmp_path):
    points, rows = make.grid(["nap"], [8, 16], [0.1], outcome=lambda x, **_: ("ok", x / 20))
    make.append(store, *rows.values())
    asked = []
    page, _ = report(tmp_path, points, rows, curves=lambda ids: asked.append(ids) or store.curves(ids))
    assert asked == [[point["id"] for point in points if point["width"] == 16]]
    assert "Learning The best cell of each model" in page.text
    assert (tmp_path / "report" / "figures" / "learning.svg").exists()
    report(tmp_path, points, rows)
    assert not (tmp_path / "report" / "figures" / "learning.svg").exists()


def test_writing_again_replaces_the_report_and_leaves_no_temporary_file(make, tmp_path):
    report(tmp_path, *make.grid(["nap"], [8, 16], [0.1]), title="First")
    page, _ = report(tmp_path, *make.grid(["nap"], [8, 16], [0.1]), title="Second")
    assert "Second" in page.text
    assert not any(tmp_path.rglob(".*"))


def test_a_report_needs_no_pandas_and_no_torch():
    code = "import sys, results.report; sys.exit(bool({'pandas', 'torch', 'matplotlib.pyplot'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0
