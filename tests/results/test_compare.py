"""Ours beside published cells: what is matched, what is within, and what is said when nothing can be."""

import pyarrow as pa
import pytest

from results.cells import cells
from results.compare import CompareError, compare, verdict


def published(axis="width", task="mode", metric="final_eval_accuracy", places=((8, 0.1), (16, 0.1)), runs=(0.5, 0.6)):
    rows = [
        {"task": task, "model": "nap", "axis": axis, "axis_value": float(x), "learning_rate": y, "run": run,
         metric: value}
        for x, y in places
        for run, value in enumerate(runs)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)


@pytest.fixture
def ours(make):
    points, rows = make.grid(
        ["nap", "sum"], [8, 16, 32], [0.1, 0.01], 2,
        outcome=lambda model, x, y, seed: None if x == 16 else ("ok", 0.55 + seed / 50),
    )  # fmt: skip
    return cells(points, rows, "width", "learning_rate")


def test_only_published_cells_of_the_study_are_compared_and_what_is_not_run_is_said(ours):
    found = compare(ours, published(), "mode")
    assert [(row["model"], row["width"], row["verdict"]) for row in found.table] == [
        ("nap", 8, "within"), ("nap", 16, "not run"),
    ]  # fmt: skip
    row = found.table[0]
    assert (row["ours"], row["theirs"], row["n"], row["n_theirs"]) == (pytest.approx(0.56), pytest.approx(0.55), 2, 2)
    assert row["difference"] == pytest.approx(0.01) and row["low"] < 0.01 < row["high"]
    (share,) = found.shares
    assert (share["model"], share["within"], share["not run"], share["share"]) == ("nap", 1, 1, 1.0)
    differences = [cell.mean for cell in found.differences.cells if cell.mean is not None]
    assert differences == [pytest.approx(0.01)]


def test_diverged_runs_count_as_zero_and_a_cell_of_them_alone_is_no_agreement(make):
    def outcome(model, x, y, seed):
        return ("ok", 0.9) if x == 32 or (x == 16 and seed == 0) else ("diverged", None)

    points, rows = make.grid(["nap"], [8, 16, 32], [0.1], 5, outcome=outcome)
    table = published(places=[(8, 0.1), (16, 0.1), (32, 0.1)], runs=(0.9, 0.9))
    found = compare(cells(points, rows, "width", "learning_rate"), table, "mode")
    assert [row["verdict"] for row in found.table] == ["diverged", "below", "within"]
    assert [row["n_diverged"] for row in found.table] == [5, 4, 0]
    assert found.shares[0]["share"] == pytest.approx(1 / 3)
    assert [cell.state for cell in found.differences.cells] == ["diverged", "measured", "measured"]


def test_more_axes_than_were_published_are_refused(make):
    shallow, deep = (make.grid(["nap"], [8], [0.1], depth=depth) for depth in (1, 2))
    points, rows = shallow[0] + deep[0], shallow[1] | deep[1]
    for facet in (None, "depth"):
        with pytest.raises(CompareError, match="the study varies depth as well"):
            compare(cells(points, rows, "width", "learning_rate", facet=facet), published(), "mode")


def test_how_much_a_verdict_proves_is_said(make):
    points, rows = make.grid(["nap", "sum"], [8], [0.1], 2)
    rows_of = [*published(places=[(8, 0.1)]).to_pylist()]
    rows_of += [{**row, "model": "sum"} for row in published(places=[(8, 0.1)], runs=(0.5, 0.5)).to_pylist()]
    found = compare(cells(points, rows, "width", "learning_rate"), pa.Table.from_pylist(rows_of), "mode")
    assert found.by_chance == 0.5  # sum's 0.5 is within nap's 0.3 to 0.8, nap's 0.55 is not within 0.48 to 0.52


def test_what_is_within_is_the_range_widened_by_three_deviations_or_two_points(ours):
    assert (verdict(0.5, 0.4, 0.6), verdict(0.39, 0.4, 0.6), verdict(0.61, 0.4, 0.6)) == ("within", "below", "above")
    (row,) = compare(ours, published(places=[(8, 0.1)], runs=(0.3, 0.3)), "mode").table
    assert (row["allowed_low"], row["allowed_high"]) == (pytest.approx(0.28), pytest.approx(0.32))
    assert row["verdict"] == "above"
    (row,) = compare(ours, published(places=[(8, 0.1)], runs=(0.3, 0.5)), "mode").table
    assert row["allowed_high"] == pytest.approx(0.5 + 3 * 0.141421, abs=1e-4)


def test_learning_rates_that_were_rounded_are_the_same(make):
    points, rows = make.grid(["nap"], [8], [0.3**10], 1)
    found = compare(cells(points, rows, "width", "learning_rate"), published(places=[(8, 5.905e-06)]), "mode")
    assert len(found.table) == 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (published(task="cases"), "nothing of task mode: it has cases"),
        (published(axis="depth"), "nothing of axis width: it has depth"),
        (published(metric="best_eval_accuracy"), "no final_eval_accuracy: --metric one of best_eval_accuracy"),
        (published(places=[(1024, 0.1)]), "none of this study's models at these values"),
    ],
)
def test_what_cannot_be_compared_is_said(ours, table, message):
    with pytest.raises(CompareError, match=message):
        compare(ours, table, "mode")


def test_a_study_without_the_learning_rate_as_y_cannot_be_compared(make):
    points, rows = make.grid(["nap"], [8], [0.1])
    with pytest.raises(CompareError, match="choose --x AXIS --y learning_rate"):
        compare(cells(points, rows, "learning_rate", "width"), published(), "mode")
