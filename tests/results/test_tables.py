"""Tables: what a cell counts and averages, and that a hole, a divergence, a failure and a zero stay four things."""

import csv
import math

import pyarrow as pa
import pytest

from results import tables
from results.schema import CURVES


def cell_of(points, rows, **options):
    (cell,) = tables.cells(points, rows, "width", "learning_rate", **options).cells
    return cell


def outcomes(*by_seed):
    """The outcome of a single cell: of its runs, by seed."""
    return lambda model, x, y, seed: by_seed[seed]


def test_a_cell_averages_its_ok_runs_with_the_sample_deviation(make):
    cell = cell_of(*make.grid(["nap"], [8], [0.1], 3, outcome=outcomes(("ok", 0.2), ("ok", 0.4), ("ok", 0.9))))
    assert cell.values == (0.2, 0.4, 0.9)
    assert cell.seeds == (0, 1, 2)
    assert cell.mean == cell.score == pytest.approx(0.5)
    assert cell.sd == pytest.approx(math.sqrt((0.09 + 0.01 + 0.16) / 2))


def test_each_outcome_of_a_run_is_counted_apart(make):
    found = [("ok", 0.8), ("diverged", None), ("failed", None), ("oom", None), None, ("ok", 0.4)]
    cell = cell_of(*make.grid(["nap"], [8], [0.1], 6, outcome=outcomes(*found)))
    counts = (cell.n_planned, cell.n_ok, cell.n_diverged, cell.n_failed, cell.n_missing, cell.n_unmeasured)
    assert counts == (6, 2, 1, 2, 1, 0)
    assert cell.mean == pytest.approx(0.6)
    assert cell.score == pytest.approx((0.8 + 0.4 + 0) / 3)


@pytest.mark.parametrize(
    ("found", "state", "mean", "score"),
    [
        ([None, None], "missing", None, None),
        ([("failed", None), None], "failed", None, None),
        ([("oom", None), ("oom", None)], "failed", None, None),
        ([("diverged", 0.7), ("diverged", None)], "diverged", None, 0.0),
        ([("diverged", None), ("failed", None)], "diverged", None, 0.0),
        ([("ok", float("nan")), None], "unmeasured", None, None),
        ([("ok", 0.0), ("ok", 0.0)], "measured", 0.0, 0.0),
        ([("ok", 0.5), ("diverged", None)], "measured", 0.5, 0.25),
    ],
)
def test_a_hole_a_failure_a_divergence_and_a_zero_are_different_states(make, found, state, mean, score):
    cell = cell_of(*make.grid(["nap"], [8], [0.1], 2, outcome=outcomes(*found)))
    assert (cell.state, cell.mean, cell.score) == (state, mean, score)


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_an_ok_run_without_a_finite_value_is_counted_and_in_no_mean(make, value):
    cell = cell_of(*make.grid(["nap"], [8], [0.1], 2, outcome=outcomes(("ok", 0.5), ("ok", value))))
    assert (cell.n_ok, cell.n_unmeasured, cell.mean, cell.score, cell.sd) == (2, 1, 0.5, 0.5, None)


def test_one_run_has_no_deviation(make):
    assert cell_of(*make.grid(["nap"], [8], [0.1], 1)).sd is None


def test_another_metric_can_be_shown_but_no_loss(make):
    points, rows = make.grid(["nap"], [8], [0.1], 1)
    rows[points[0]["id"]]["best_eval_accuracy"] = 0.75
    assert cell_of(points, rows, metric="best_eval_accuracy").mean == 0.75
    with pytest.raises(ValueError, match="cannot show 'final_eval_loss': one of best_train_accuracy"):
        cell_of(points, rows, metric="final_eval_loss")


def test_numbers_ascend_and_names_keep_the_order_of_the_study(make):
    points, rows = make.grid(["sum", "bert"], ["wide", "narrow"], [0.1, 0.001, 0.01], x="shape")
    cells = tables.cells(points, rows, "shape", "learning_rate")
    assert cells.models == ("sum", "bert")
    assert cells.x_values == ("wide", "narrow")
    assert cells.y_values == (0.001, 0.01, 0.1)


def test_axes_beyond_the_figure_are_averaged_and_named(make):
    shallow = make.grid(["nap"], [8], [0.1], 1, depth=1, outcome=outcomes(("ok", 0.2)), length=128)
    deep = make.grid(["nap"], [8], [0.1], 1, depth=2, outcome=outcomes(("ok", 0.6)), length=128)
    cells = tables.cells(shallow[0] + deep[0], shallow[1] | deep[1], "width", "learning_rate")
    assert cells.averaged_axes == ("depth",)
    assert [cell.mean for cell in cells.cells] == [pytest.approx(0.4)]
    assert cells.cells[0].n_planned == 2


def test_without_an_axis_there_is_a_single_row_or_column(make):
    cells = tables.cells(*make.grid(["nap"], [8, 16], [0.1, 0.01]), "width", None)
    assert [(cell.x, cell.y, cell.n_planned) for cell in cells.cells] == [(8, None, 4), (16, None, 4)]
    assert cells.averaged_axes == ("learning_rate",)
    assert len(tables.cells(*make.grid(["nap"], [8, 16], [0.1, 0.01]), None, None).cells) == 1


def test_an_unknown_axis_is_an_error_that_lists_those_there_are(make):
    with pytest.raises(ValueError, match="no axis 'widht' in this study: one of learning_rate, model, seed, width"):
        tables.cells(*make.grid(["nap"], [8], [0.1]), "widht", "learning_rate")


def test_a_ragged_study_has_cells_only_where_it_plans_trials(make):
    wide, tall = make.grid(["nap"], [8, 16, 32], [0.1]), make.grid(["nap"], [8], [0.01, 0.001])
    cells = tables.cells(wide[0] + tall[0], wide[1] | tall[1], "width", "learning_rate")
    assert len(cells.cells) == 5
    assert (cells.x_values, cells.y_values) == ((8, 16, 32), (0.001, 0.01, 0.1))


def test_a_study_without_trials_gives_empty_tables():
    cells = tables.cells([], {}, "width", "learning_rate")
    assert (cells.cells, cells.models, cells.table()) == ((), (), [])
    assert tables.robustness_curve(cells) == tables.model_summary(cells) == tables.failures([], {}) == []


def by_place(values):
    """Accuracies by (model, x); None is missing, a string a status."""

    def outcome(model, x, y, seed):
        found = values[model][x]
        return None if found is None else (found, None) if isinstance(found, str) else ("ok", found)

    return outcome


def test_a_robustness_curve_sorts_the_scores_of_the_cells_with_a_result(make):
    values = {"nap": {1: 0.3, 2: 0.9, 4: None, 8: "failed", 16: "diverged"}}
    cells = tables.cells(*make.grid(["nap"], values["nap"], [0.1], 1, outcome=by_place(values)), "width", None)
    curve = tables.robustness_curve(cells)
    assert [(row["rank"], row["score"], row["x"]) for row in curve] == [(1, 0.9, 2), (2, 0.3, 1), (3, 0.0, 16)]
    assert [row["share"] for row in curve] == pytest.approx([1 / 3, 2 / 3, 1])
    assert {(row["n_cells"], row["n_planned_cells"]) for row in curve} == {(3, 5)}


def test_a_summary_measures_closeness_from_the_best_cell_of_any_model(make):
    values = {"nap": {1: 0.95, 2: 0.90, 4: 0.89}, "bert": {1: 0.91, 2: 0.2, 4: None}}
    points, rows = make.grid(values, values["nap"], [0.1], 1, outcome=by_place(values))
    nap, bert = tables.model_summary(tables.cells(points, rows, "width", "learning_rate"))
    assert (nap["model"], nap["best_x"], nap["best_y"], nap["best_mean"], nap["best_n"]) == ("nap", 1, 0.1, 0.95, 1)
    assert (nap["n_close"], nap["close_share"]) == (2, pytest.approx(2 / 3))
    assert nap["mean_score"] == pytest.approx((0.95 + 0.90 + 0.89) / 3)
    assert (bert["n_close"], bert["close_share"], bert["n_cells"], bert["n_planned_cells"]) == (1, 0.5, 2, 3)
    assert (bert["n_ok"], bert["n_missing"], bert["n_failed"], bert["n_diverged"]) == (2, 1, 0, 0)


def test_the_best_cell_is_not_one_that_mostly_diverges(make):
    def outcome(model, x, y, seed):
        return ("ok", 0.8) if x == 1 else ("ok", 0.99) if seed == 0 else ("diverged", None)

    (summary,) = tables.model_summary(
        tables.cells(*make.grid(["nap"], [1, 2], [0.1], 3, outcome=outcome), "width", None)
    )
    assert (summary["best_x"], summary["best_mean"], summary["n_diverged"]) == (1, pytest.approx(0.8), 2)


def test_a_model_that_always_diverges_scores_zero_and_has_no_mean(make):
    points, rows = make.grid(["nap"], [1, 2], [0.1], 2, outcome=lambda **_: ("diverged", None))
    (summary,) = tables.model_summary(tables.cells(points, rows, "width", "learning_rate"))
    assert (summary["best_score"], summary["best_mean"], summary["best_n"], summary["mean_score"]) == (0, None, 0, 0)
    assert summary["n_diverged"] == 4


def test_a_model_without_a_result_has_no_best_cell_and_no_share(make):
    points, rows = make.grid(["nap"], [1, 2], [0.1], 2, outcome=lambda **_: None)
    (summary,) = tables.model_summary(tables.cells(points, rows, "width", "learning_rate"))
    assert {summary[name] for name in ("best_x", "best_score", "best_mean", "mean_score", "close_share")} == {None}
    assert summary["n_missing"] == 4


def test_learning_curves_are_those_of_the_best_cell_on_the_sequences_of_the_metric(make):
    values = {"nap": {1: 0.3, 2: 0.9}, "bert": {1: None, 2: "failed"}}
    points, rows = make.grid(values, [1, 2], [0.1], 2, outcome=by_place(values))
    cells = tables.cells(points, rows, "width", "learning_rate")
    best = tables.ids_of_best_cells(cells)
    assert best == [point["id"] for point in points if (point["model"], point["width"]) == ("nap", 2)]
    curves = [row for id_ in rows for row in make.curve_rows(rows[id_])]
    for row in curves:
        if row["id"] == best[1]:
            row["correct"] += 2
    noise = {"id": best[0], "epoch": 1, "split": "eval", "length": 64, "case": "all", "correct": 10, "count": 10}
    others = [noise | change for change in ({"split": "train"}, {"length": 128}, {"case": "first"}, {"count": 0})]
    table = tables.learning_curves(cells, rows, pa.Table.from_pylist(curves + others, schema=CURVES))
    assert [(row["model"], row["x"], row["y"], row["epoch"], row["n"]) for row in table] == [
        ("nap", 2, 0.1, epoch, 2) for epoch in (1, 2, 3)
    ]
    assert [(row["lowest"], row["mean"], row["highest"]) for row in table] == [
        (pytest.approx(epoch / 10), pytest.approx(epoch / 10 + 0.1), pytest.approx(epoch / 10 + 0.2))
        for epoch in (1, 2, 3)
    ]


def test_counts_are_by_status(make):
    found = [("ok", 0.8), ("diverged", None), ("failed", None), ("oom", None), None, ("ok", 0.4)]
    points, rows = make.grid(["nap"], [8], [0.1], 6, outcome=outcomes(*found))
    rows["another study's"] = make.trial_row()
    assert tables.counts(points, rows) == {
        "planned": 6, "ok": 2, "diverged": 1, "failed": 1, "oom": 1, "missing": 1,
    }  # fmt: skip


def test_failures_are_grouped_by_the_last_line_of_their_error_numbers_aside(make):
    points, rows = make.grid(["nap", "bert"], [8, 16], [0.1], 1, outcome=lambda **_: ("failed", None))
    errors = ["Traceback\n  a\nValueError: 3 is odd", "Traceback\n  b\nValueError: 11 is odd\n", "KeyError: 'x'", None]
    for point, error in zip(points, errors, strict=True):
        rows[point["id"]]["error"] = error
    rows[points[2]["id"]]["status"] = "oom"
    table = tables.failures(points, rows)
    assert [(row["status"], row["kind"], row["count"]) for row in table] == [
        ("failed", "ValueError: 3 is odd", 2),
        ("oom", "KeyError: 'x'", 1),
        ("failed", "no message", 1),
    ]
    assert table[0]["example_id"] == points[0]["id"]
    assert table[0]["example"] == "seed=0, model=nap, width=8, learning_rate=0.1"
    assert table[0]["error"] == errors[0]


def test_a_table_is_saved_as_csv_with_holes_empty_and_values_joined(make, tmp_path):
    found = [("ok", 0.25), None, ("ok", 0.5)]
    points, rows = make.grid(
        ["a, b", "c"], [8], [0.1], 3, outcome=lambda model, seed, **_: found[seed] if model == "c" else None
    )
    tables.to_csv(tables.cells(points, rows, "width", "learning_rate").table(), tmp_path / "cells.csv")
    with open(tmp_path / "cells.csv", newline="") as file:
        hole, cell = csv.DictReader(file)
    assert (hole["model"], hole["width"], hole["mean"], hole["score"], hole["values"]) == ("a, b", "8", "", "", "")
    assert (cell["mean"], cell["values"], cell["seeds"], cell["n_missing"]) == ("0.375", "0.25 0.5", "0 2", "1")
    assert [path.name for path in tmp_path.iterdir()] == ["cells.csv"]


def test_a_table_keeps_the_figures_axes_under_their_own_names(make):
    table = tables.cells(*make.grid(["nap"], [8], [0.1]), "width", None).table()
    assert list(table[0])[:3] == ["model", "width", "values"]
