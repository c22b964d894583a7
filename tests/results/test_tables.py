"""Tables: what a cell counts and averages, and that a hole, a divergence, a failure and a zero stay four things."""

import csv
import math

import pyarrow as pa
import pytest

from results import curve_tables, tables
from results.cells import cells as cells_of
from results.csv_files import to_csv
from results.curves import Curves
from results.lengths import length_cells, lengths
from results.metrics import metric_of
from results.outcomes import counts, failures
from results.schema import CURVES


def cell_of(points, rows, **options):
    (cell,) = cells_of(points, rows, "width", "learning_rate", **options).cells
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


def test_another_metric_can_be_shown_and_an_unknown_one_lists_those_there_are(make):
    points, rows = make.grid(["nap"], [8], [0.1], 1)
    rows[points[0]["id"]] |= {"best_eval_accuracy": 0.75, "final_eval_loss": 1.25}
    assert cell_of(points, rows, metric="best_eval_accuracy").mean == 0.75
    assert cell_of(points, rows, metric="final_eval_loss").mean == 1.25
    with pytest.raises(ValueError, match=r"no metric 'accuracy' here: one of final_eval_accuracy, .*paper_heatmap"):
        cell_of(points, rows, metric="accuracy")
    with pytest.raises(ValueError, match=r"read from learning curves"):
        cell_of(points, rows, metric="paper_heatmap")


def test_a_diverged_run_counts_as_the_largest_loss_of_the_study(make):
    points, rows = make.grid(["nap"], [8], [0.1], 3, outcome=outcomes(("ok", 0.2), ("ok", 0.4), ("diverged", None)))
    for point, loss in zip(points, (0.5, 2.5, None)):
        rows[point["id"]]["final_eval_loss"] = loss
    cell = cell_of(points, rows, metric="final_eval_loss")
    assert (cell.mean, cell.score) == (1.5, pytest.approx((0.5 + 2.5 + 2.5) / 3))


def test_numbers_ascend_and_names_keep_the_order_of_the_study(make):
    points, rows = make.grid(["sum", "bert"], ["wide", "narrow"], [0.1, 0.001, 0.01], x="shape")
    cells = cells_of(points, rows, "shape", "learning_rate")
    assert cells.models == ("sum", "bert")
    assert cells.x_values == ("wide", "narrow")
    assert cells.y_values == (0.001, 0.01, 0.1)


def test_axes_beyond_the_figure_are_averaged_and_named(make):
    shallow = make.grid(["nap"], [8], [0.1], 1, depth=1, outcome=outcomes(("ok", 0.2)), length=128)
    deep = make.grid(["nap"], [8], [0.1], 1, depth=2, outcome=outcomes(("ok", 0.6)), length=128)
    cells = cells_of(shallow[0] + deep[0], shallow[1] | deep[1], "width", "learning_rate")
    assert cells.averaged_axes == ("depth",)
    assert [cell.mean for cell in cells.cells] == [pytest.approx(0.4)]
    assert cells.cells[0].n_planned == 2


def test_without_an_axis_there_is_a_single_row_or_column(make):
    cells = cells_of(*make.grid(["nap"], [8, 16], [0.1, 0.01]), "width", None)
    assert [(cell.x, cell.y, cell.n_planned) for cell in cells.cells] == [(8, None, 4), (16, None, 4)]
    assert cells.averaged_axes == ("learning_rate",)
    assert len(cells_of(*make.grid(["nap"], [8, 16], [0.1, 0.01]), None, None).cells) == 1


def test_an_unknown_axis_is_an_error_that_lists_those_there_are(make):
    with pytest.raises(ValueError, match="no axis 'widht' in this study: one of learning_rate, model, seed, width"):
        cells_of(*make.grid(["nap"], [8], [0.1]), "widht", "learning_rate")


def test_a_ragged_study_has_cells_only_where_it_plans_trials(make):
    wide, tall = make.grid(["nap"], [8, 16, 32], [0.1]), make.grid(["nap"], [8], [0.01, 0.001])
    cells = cells_of(wide[0] + tall[0], wide[1] | tall[1], "width", "learning_rate")
    assert len(cells.cells) == 5
    assert (cells.x_values, cells.y_values) == ((8, 16, 32), (0.001, 0.01, 0.1))


def test_a_study_without_trials_gives_empty_tables():
    cells = cells_of([], {}, "width", "learning_rate")
    assert (cells.cells, cells.models, cells.table()) == ((), (), [])
    assert tables.robustness_curve(cells) == tables.model_summary(cells) == failures([], {}) == []


def by_place(values):
    """Accuracies by (model, x); None is missing, a string a status."""

    def outcome(model, x, y, seed):
        found = values[model][x]
        return None if found is None else (found, None) if isinstance(found, str) else ("ok", found)

    return outcome


def test_a_robustness_curve_sorts_the_scores_of_the_cells_with_a_result(make):
    values = {"nap": {1: 0.3, 2: 0.9, 4: None, 8: "failed", 16: "diverged"}}
    cells = cells_of(*make.grid(["nap"], values["nap"], [0.1], 1, outcome=by_place(values)), "width", None)
    curve = tables.robustness_curve(cells)
    assert [(row["rank"], row["score"], row["x"]) for row in curve] == [(1, 0.9, 2), (2, 0.3, 1), (3, 0.0, 16)]
    assert [row["share"] for row in curve] == pytest.approx([1 / 3, 2 / 3, 1])
    assert {(row["n_cells"], row["n_planned_cells"]) for row in curve} == {(3, 5)}


def test_a_summary_measures_closeness_from_the_best_cell_of_any_model(make):
    values = {"nap": {1: 0.95, 2: 0.90, 4: 0.89}, "bert": {1: 0.91, 2: 0.2, 4: None}}
    points, rows = make.grid(values, values["nap"], [0.1], 1, outcome=by_place(values))
    nap, bert = tables.model_summary(cells_of(points, rows, "width", "learning_rate"))
    assert (nap["model"], nap["best_x"], nap["best_y"], nap["best_mean"], nap["best_n"]) == ("nap", 1, 0.1, 0.95, 1)
    assert (nap["n_close"], nap["close_share"]) == (2, pytest.approx(2 / 3))
    assert nap["mean_score"] == pytest.approx((0.95 + 0.90 + 0.89) / 3)
    assert (bert["n_close"], bert["close_share"], bert["n_cells"], bert["n_planned_cells"]) == (1, 0.5, 2, 3)
    assert (bert["n_ok"], bert["n_missing"], bert["n_failed"], bert["n_diverged"]) == (2, 1, 0, 0)


def test_the_best_cell_is_not_one_that_mostly_diverges(make):
    def outcome(model, x, y, seed):
        return ("ok", 0.8) if x == 1 else ("ok", 0.99) if seed == 0 else ("diverged", None)

    (summary,) = tables.model_summary(cells_of(*make.grid(["nap"], [1, 2], [0.1], 3, outcome=outcome), "width", None))
    assert (summary["best_x"], summary["best_mean"], summary["n_diverged"]) == (1, pytest.approx(0.8), 2)


def test_a_model_that_always_diverges_scores_zero_and_has_no_mean(make):
    points, rows = make.grid(["nap"], [1, 2], [0.1], 2, outcome=lambda **_: ("diverged", None))
    (summary,) = tables.model_summary(cells_of(points, rows, "width", "learning_rate"))
    assert (summary["best_score"], summary["best_mean"], summary["best_n"], summary["mean_score"]) == (0, None, 0, 0)
    assert summary["n_diverged"] == 4


def test_a_model_without_a_result_has_no_best_cell_and_no_share(make):
    points, rows = make.grid(["nap"], [1, 2], [0.1], 2, outcome=lambda **_: None)
    (summary,) = tables.model_summary(cells_of(points, rows, "width", "learning_rate"))
    assert {summary[name] for name in ("best_x", "best_score", "best_mean", "mean_score", "close_share")} == {None}
    assert summary["n_missing"] == 4


def curves_of(rows, make, changed=(), more=()):
    """Curves that rise by 0.1 an epoch; `changed` are ids whose curves are 0.2 higher."""
    table = [row for id_ in rows for row in make.curve_rows(rows[id_])]
    for row in table:
        row["correct"] += 2 * (row["id"] in changed)
    return Curves(pa.Table.from_pylist([*table, *more], schema=CURVES), rows)


def test_learning_curves_are_those_of_the_best_the_median_and_the_worst_cell(make):
    values = {"nap": {1: 0.3, 2: 0.9, 4: 0.5}, "bert": {1: None, 2: "failed", 4: 0.1}}
    points, rows = make.grid(values, [1, 2, 4], [0.1], 2, outcome=by_place(values))
    cells = cells_of(points, rows, "width", "learning_rate")
    best = [point["id"] for point in points if (point["model"], point["width"]) == ("nap", 2)]
    noise = {"id": best[0], "attempt": 1, "epoch": 1, "split": "eval", "length": 64, "case": "all", "correct": 10}
    noise |= {"count": 10}
    others = [noise | change for change in ({"split": "train"}, {"length": 128}, {"case": "first"}, {"count": 0})]
    others += [noise | {"attempt": 2}, noise | {"id": "a stranger"}]
    table = curve_tables.learning_curves(cells, curves_of(rows, make, best[1:], others))
    shown = {(row["model"], row["which"]): row["x"] for row in table}
    assert shown == {("nap", "best"): 2, ("nap", "median"): 4, ("nap", "worst"): 1, ("bert", "best"): 4}
    of_best = [row for row in table if (row["model"], row["which"]) == ("nap", "best")]
    assert [(row["epoch"], row["n"]) for row in of_best] == [(1, 2), (2, 2), (3, 2)]
    for row in of_best:
        assert row["lowest"] == pytest.approx(row["epoch"] / 10)
        assert row["mean"] == pytest.approx(row["epoch"] / 10 + 0.1)
        assert row["highest"] == pytest.approx(row["epoch"] / 10 + 0.2)


def test_the_papers_heatmap_takes_the_best_epoch_of_the_mean_and_not_the_mean_of_best_epochs(make):
    points, rows = make.grid(["nap"], [8], [0.1], 2)
    correct = {points[0]["id"]: [9, 1, 4], points[1]["id"]: [1, 9, 8]}
    base = {"attempt": 1, "split": "eval", "length": 64, "case": "all", "loss": 1.0, "count": 10}
    table = [
        base | {"id": id_, "epoch": e + 1, "correct": n} for id_, found in correct.items() for e, n in enumerate(found)
    ]
    curves = Curves(pa.Table.from_pylist(table, schema=CURVES), rows)
    cell = cell_of(points, rows, metric="paper_heatmap", curves=curves)
    assert cell.mean == pytest.approx(0.6)  # of (0.9, 0.1), (0.1, 0.9), (0.4, 0.8): the last
    assert cell.values == (pytest.approx(0.4), pytest.approx(0.8))


def test_a_case_is_read_at_its_length_after_the_last_epoch(make):
    points, rows = make.grid(["nap"], [8], [0.1], 1)
    base = {"id": points[0]["id"], "attempt": 1, "split": "eval", "case": "first", "loss": 1.0, "count": 10}
    table = [base | {"epoch": e, "length": n, "correct": e + (n == 64)} for e in (1, 2, 3) for n in (64, 128)]
    curves = Curves(pa.Table.from_pylist(table, schema=CURVES), rows)
    for name, value in (("final_case_first", 0.3), ("final_eval_case_first", 0.4)):
        cell = cell_of(points, rows, metric=metric_of(name, ["first"]), curves=curves)
        assert cell.values == (pytest.approx(value),)


def test_evolution_has_the_mean_of_every_cell_at_every_epoch(make):
    points, rows = make.grid(["nap"], [1, 2], [0.1], 2, outcome=by_place({"nap": {1: 0.5, 2: None}}))
    cells = cells_of(points, rows, "width", "learning_rate")
    means = curve_tables.evolution(cells, curves_of(rows, make, [points[1]["id"]]))
    assert means[0] == pytest.approx([0.2, 0.3, 0.4]) and all(map(math.isnan, means[1]))


def test_lengths_are_shown_where_there_are_several_and_name_the_best_setting(make):
    values = {"nap": {1: 0.3, 2: 0.9}}
    points, rows = make.grid(["nap"], [1, 2], [0.1], 2, outcome=by_place(values))
    assert lengths(points, rows, curves_of(rows, make)) == []
    longer = [
        {**row, "length": 256, "correct": 5 * (rows[id_]["width"])}
        for id_ in rows
        for row in make.curve_rows(rows[id_])
    ]
    table = lengths(points, rows, curves_of(rows, make, more=longer))
    found = {row["eval_length"]: (row["length"], row["n"], row["mean"], row["best"]) for row in table}
    assert found[64] == (128, 4, pytest.approx(0.3), pytest.approx(0.3))
    assert found[256] == (128, 4, pytest.approx(0.75), pytest.approx(1.0))


def test_lengths_make_cells_in_which_diverged_failed_and_missing_are_told_apart(make):
    values = {"nap": {8: 0.9, 16: "diverged", 32: "failed", 64: None}}
    points, rows = make.grid(["nap"], [8, 16, 32, 64], [0.1], 2, outcome=by_place(values))
    points = [{**point, "length": point["width"]} for point in points]
    rows = {id_: {**row, "length": row["width"]} for id_, row in rows.items()}
    further = [{**row, "length": 256} for id_ in rows for row in make.curve_rows(rows[id_])]
    table = lengths(points, rows, curves_of(rows, make, more=further))
    cells = length_cells(table, ["nap", "never run"])
    states = {(cell.x, cell.y): (cell.state, cell.n_planned) for cell in cells.cells}
    assert cells.models == ("nap",) and cells.x_values == (8, 16, 32, 64)
    assert all(cell.n_ok == len(cell.values) for cell in cells.cells)
    assert states[8, 256] == ("measured", 2) and states[16, 256] == ("diverged", 2)
    assert states[32, 256] == ("failed", 2) and states[64, 256] == ("missing", 2)
    assert length_cells([row for row in table if row["length"] == 8], ["nap"]) is None


def test_counts_are_by_status(make):
    found = [("ok", 0.8), ("diverged", None), ("failed", None), ("oom", None), None, ("ok", 0.4)]
    points, rows = make.grid(["nap"], [8], [0.1], 6, outcome=outcomes(*found))
    rows["another study's"] = make.trial_row()
    assert counts(points, rows) == {
        "planned": 6, "ok": 2, "diverged": 1, "failed": 1, "oom": 1, "missing": 1,
    }  # fmt: skip


def test_failures_are_grouped_by_the_last_line_of_their_error_numbers_aside(make):
    points, rows = make.grid(["nap", "bert"], [8, 16], [0.1], 1, outcome=lambda **_: ("failed", None))
    errors = ["Traceback\n  a\nValueError: 3 is odd", "Traceback\n  b\nValueError: 11 is odd\n", "KeyError: 'x'", None]
    for point, error in zip(points, errors, strict=True):
        rows[point["id"]]["error"] = error
    rows[points[2]["id"]]["status"] = "oom"
    table = failures(points, rows)
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
    to_csv(cells_of(points, rows, "width", "learning_rate").table(), tmp_path / "cells.csv")
    with open(tmp_path / "cells.csv", newline="") as file:
        hole, cell = csv.DictReader(file)
    assert (hole["model"], hole["width"], hole["mean"], hole["score"], hole["values"]) == ("a, b", "8", "", "", "")
    assert (cell["mean"], cell["values"], cell["seeds"], cell["n_missing"]) == ("0.375", "0.25 0.5", "0 2", "1")
    assert [path.name for path in tmp_path.iterdir()] == ["cells.csv"]


def test_a_table_keeps_the_figures_axes_under_their_own_names(make):
    table = cells_of(*make.grid(["nap"], [8], [0.1]), "width", None).table()
    assert list(table[0])[:3] == ["model", "width", "values"]


def rates(model, x, y, seed):
    """NAP works over three decades, BERT at one learning rate, and a run in four diverges at the highest."""
    if y == 0.1 and seed == 0:
        return "diverged", None
    works = y < 0.1 if model == "nap" else y == 0.01
    return "ok", (0.9 if works else 0.2) + 0.01 * seed


@pytest.fixture
def robust(make):
    points, rows = make.grid(["nap", "bert"], [8, 16], [0.0001, 0.001, 0.01, 0.1], 4, outcome=rates)
    return points, cells_of(points, rows, "width", "learning_rate")


def test_the_range_of_rates_that_work_is_measured_in_decades_at_every_x(robust):
    _, cells = robust
    limit = tables.threshold(cells, chance=0.2)
    assert limit == pytest.approx((0.915 + 0.2) / 2)
    found = {(row["model"], row["x"]): row["decades"] for row in tables.rate_windows(cells, chance=0.2)}
    assert found == {
        ("nap", 8): pytest.approx(3.0), ("nap", 16): pytest.approx(3.0),
        ("bert", 8): pytest.approx(1.0), ("bert", 16): pytest.approx(1.0),
    }  # fmt: skip


def test_a_summary_says_how_sure_a_mean_is_how_far_seeds_part_and_how_much_diverged(robust):
    nap, bert = tables.model_summary(robust[1], chance=0.2)
    assert nap["mean_low"] < nap["mean_score"] < nap["mean_high"] and nap["mean_high"] - nap["mean_low"] < 0.1
    assert nap["mean_score"] == pytest.approx((3 * 0.915 + (0.21 + 0.22 + 0.23) / 4) / 4)
    assert nap["diverged_share"] == pytest.approx(1 / 16) and nap["decades"] == pytest.approx(3.0)
    assert nap["spread"] == pytest.approx(math.sqrt((3 * 0.000166667 + 0.0001) / 4), rel=1e-3)
    assert bert["mean_high"] < nap["mean_low"]


def test_one_seed_gives_no_interval(make):
    points, rows = make.grid(["nap", "sum"], [8, 16], [0.1, 0.01], 1, outcome=lambda x, **_: ("ok", x / 20))
    cells = cells_of(points, rows, "width", "learning_rate")
    assert {row["mean_low"] for row in tables.model_summary(cells)} == {None}
    assert {row["low"] for row in tables.robustness_curve(cells)} == {None}
    assert {row["low"] for row in tables.pairwise(cells)} == {None}


def test_models_are_compared_in_pairs_of_the_same_cell_and_seed(robust):
    (row,) = tables.pairwise(robust[1])
    assert (row["model"], row["other"], row["n"], row["n_cells"]) == ("nap", "bert", 32, 8)
    assert row["difference"] == pytest.approx(0.7 * 2 / 4)
    assert row["low"] == row["high"] == pytest.approx(row["difference"])  # seeds differ alike: paired, nothing is left
    assert row["p"] < 0.001 and row["p_holm"] == row["p"]


def test_pairs_that_only_one_model_has_run_are_left_out(make):
    values = {"nap": {1: 0.5, 2: 0.9}, "bert": {1: 0.4, 2: None}, "sum": {1: None, 2: None}}
    points, rows = make.grid(values, [1, 2], [0.1], 2, outcome=by_place(values))
    found = {(r["model"], r["other"]): r for r in tables.pairwise(cells_of(points, rows, "width", "learning_rate"))}
    assert found["nap", "bert"]["n"] == 2 and found["nap", "bert"]["difference"] == pytest.approx(0.1)
    assert found["nap", "sum"]["n"] == 0 and found["nap", "sum"]["p_holm"] is None


def test_the_expected_best_grows_with_the_draws_from_the_mean_towards_the_best(robust):
    bests = {row["k"]: row["expected"] for row in tables.expected_bests(robust[1]) if row["model"] == "bert"}
    (summary,) = [row for row in tables.model_summary(robust[1]) if row["model"] == "bert"]
    assert bests[1] == pytest.approx(summary["mean_score"])
    assert bests[1] < bests[2] < bests[4] < bests[8] < bests[16] <= summary["best_score"]


def test_with_losses_the_smallest_is_best(make):
    points, rows = make.grid(["nap"], [1, 2], [0.1], 2)
    for point in points:
        rows[point["id"]]["final_eval_loss"] = float(point["width"])
    cells = cells_of(points, rows, "width", "learning_rate", "final_eval_loss")
    (summary,) = tables.model_summary(cells)
    assert (summary["best_x"], summary["best_score"], summary["close_share"]) == (1, 1.0, None)
    assert [row["score"] for row in tables.robustness_curve(cells)] == [1.0, 2.0]
    assert [row["expected"] for row in tables.expected_bests(cells) if row["k"] == 16] == [pytest.approx(1.0, abs=0.01)]


def test_a_facet_keeps_apart_what_would_be_averaged(make):
    shallow = make.grid(["nap"], [8], [0.1], 2, depth=1, outcome=outcomes(("ok", 0.2), ("ok", 0.2)))
    deep = make.grid(["nap"], [8], [0.1], 2, depth=2, outcome=outcomes(("ok", 0.6), ("ok", 0.6)))
    cells = cells_of(shallow[0] + deep[0], shallow[1] | deep[1], "width", "learning_rate", facet="depth")
    assert [(cell.facet, cell.mean) for cell in cells.cells] == [(1, 0.2), (2, 0.6)]
    assert cells.facet_values == (1, 2) and cells.averaged_axes == () and cells.of("nap", 2)[0].mean == 0.6
    assert list(cells.table()[0])[:4] == ["model", "depth", "width", "learning_rate"]
    assert tables.model_summary(cells)[0]["best_facet"] == 2


def test_importance_names_the_axis_that_decides_and_says_where_n_is_small(make):
    from results.importance import axis_importance

    points, rows = make.grid(
        ["nap", "sum"], [8, 16, 32, 64], [0.1, 0.01, 0.001, 0.0001], 4,
        outcome=lambda model, x, y, seed: ("ok", (x if model == "nap" else y * 600) / 80 + seed / 1000),
    )  # fmt: skip
    table = axis_importance(points, cells_of(points, rows, "width", "learning_rate"))
    shares = {(row["model"], row["axis"]): row["importance"] for row in table}
    assert shares["nap", "width"] > 0.8 and shares["sum", "learning_rate"] > 0.8
    assert shares["nap", "width"] + shares["nap", "learning_rate"] == pytest.approx(1)
    assert {(row["n"], row["few"]) for row in table} == {(16, True)}
    points, rows = make.grid(
        ["nap"], [8, 16, 32, 64], [0.1], 3, outcome=lambda x, seed, **_: ("ok", x / 80 + seed / 100)
    )
    few = axis_importance(points, cells_of(points, rows, "width", None))
    assert [(row["axis"], row["importance"], row["n"], row["few"]) for row in few] == [("width", 1.0, 4, True)]


def test_a_range_of_rates_is_measured_on_the_rates_that_were_planned_there_and_not_while_some_are_missing(make):
    high = make.grid(["nap"], [8], [0.1, 0.01, 0.001], 2, outcome=lambda **_: ("ok", 0.9))
    low = make.grid(["sum"], [8], [0.05, 0.005, 0.0005], 2, outcome=lambda y, **_: None if y < 0.001 else ("ok", 0.9))
    cells = cells_of(high[0] + low[0], high[1] | low[1], "width", "learning_rate")
    nap, some = tables.rate_windows(cells, chance=0.1)
    assert (nap["decades"], nap["n_rates"], nap["n_planned"]) == (pytest.approx(3.0), 3, 3)
    assert (some["model"], some["decades"], some["n_rates"], some["n_planned"]) == ("sum", None, 2, 3)
    assert tables.model_summary(cells, chance=0.1)[1]["decades"] is None
    assert tables.rate_windows(cells, chance=None) == []


def test_trials_that_are_two_points_of_a_cell_are_one_run_and_still_pair_with_both(make):
    points, rows = make.grid(["sum", "nap"], [8], [0.1], 2)
    nap = [{**point, "id": f"{point['id']}{heads}", "heads": heads} for point in points[2:] for heads in (1, 2)]
    rows |= {point["id"]: rows[point["id"][:-1]] | {"final_eval_accuracy": 0.4} for point in nap}
    same = [{**point, "heads": heads} for point in points[:2] for heads in (1, 2)]
    cells = cells_of(same + nap, rows, "width", "learning_rate")
    of_sum = cells.of("sum")[0]
    assert (of_sum.n_planned, of_sum.n_ok, of_sum.n_unmeasured, len(of_sum.values)) == (2, 2, 0, 2)
    (row,) = tables.pairwise(cells)
    assert row["n"] == 4 and row["difference"] == pytest.approx(0.1)


def test_settings_that_a_cell_averages_are_no_repetitions(make):
    outcome = lambda depth: lambda **_: ("ok", depth / 4)  # noqa: E731
    grids = [make.grid(["nap"], [8, 16], [0.1], 1, depth=depth, outcome=outcome(depth)) for depth in (1, 2, 3)]
    points, rows = [p for g in grids for p in g[0]], {id_: row for g in grids for id_, row in g[1].items()}
    (summary,) = tables.model_summary(cells_of(points, rows, "width", "learning_rate"))
    assert (summary["mean_score"], summary["mean_low"], summary["spread"]) == (0.5, None, None)


def test_there_is_no_interval_while_most_cells_have_one_run(make):
    points, rows = make.grid(
        ["nap"], list(range(1, 11)), [0.1], 2, outcome=lambda x, seed, **_: None if seed and x > 1 else ("ok", x / 10)
    )
    cells = cells_of(points, rows, "width", "learning_rate")
    assert tables.model_summary(cells)[0]["mean_low"] is None
    assert {row["low"] for row in tables.robustness_curve(cells)} == {None}


def test_a_band_holds_its_line(make):
    import random

    noise = random.Random(0)
    points, rows = make.grid(["nap"], list(range(1, 41)), [0.1], 5, outcome=lambda **_: ("ok", noise.gauss(0.5, 0.05)))
    curve = tables.robustness_curve(cells_of(points, rows, "width", "learning_rate"))
    assert all(row["low"] <= row["score"] <= row["high"] for row in curve)


def test_trials_of_fewer_epochs_are_read_at_their_own_last_one(make):
    points, rows = make.grid(["nap"], [8, 16], [0.1], 1)
    base = {"attempt": 1, "split": "eval", "length": 64, "case": "first", "loss": 1.0, "count": 10}
    table = [
        base | {"id": points[n]["id"], "epoch": e, "correct": e}
        for n, last in ((0, 2), (1, 4))
        for e in range(1, last + 1)
    ]
    table += [row | {"case": "all"} for row in table]
    curves = Curves(pa.Table.from_pylist(table, schema=CURVES), rows)
    for metric in ("paper_heatmap", metric_of("final_eval_case_first", ["first"])):
        cells = cells_of(points, rows, "width", None, metric, curves)
        assert [cell.mean for cell in cells.cells] == [pytest.approx(0.2), pytest.approx(0.4)]
