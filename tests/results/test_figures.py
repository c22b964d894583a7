"""Figures: axes in numbers, and pictures that come out for every shape of study and show each state differently."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PatchCollection, QuadMesh

from results import figures, tables
from results.axes import lay_out
from results.canvas import save
from results.cells import cells as cells_of
from results.heatmaps import panels as panels_figure
from results.heatmaps import panels_of, scale_of
from results.marks import COLOURS, LEGEND, MARKS
from results.metrics import metric_of

METRIC = metric_of("final_eval_accuracy")


def draw(points, rows, x="width", y="learning_rate", **options):
    cells = cells_of(points, rows, x, y)
    return panels_figure(panels_of(cells), cells, scale_of(cells, **options))


def panels(figure):
    return [axes for axes in figure.axes if axes.get_title()]


def legend(figure):
    return {text.get_text() for drawn in figure.legends for text in drawn.get_texts()}


def test_numbers_spaced_evenly_in_their_logarithm_stand_on_a_log_axis_and_cells_meet_at_the_geometric_mean():
    axis = lay_out([8, 16, 32, 64])
    assert axis.scale == "log"
    assert np.allclose(10 ** np.array(axis.positions), [8, 16, 32, 64])
    assert np.allclose(10 ** np.array(axis.edges), np.array([8, 16, 32, 64, 128]) / np.sqrt(2))
    assert [label for _, label in axis.ticks] == ["8", "16", "32", "64"]


def test_learning_rates_are_labelled_in_round_numbers_at_their_true_places():
    axis = lay_out(sorted(0.3**k for k in range(1, 11)))
    assert axis.ticks == ((-5.0, "10⁻⁵"), (-4.0, "10⁻⁴"), (-3.0, "0.001"), (-2.0, "0.01"), (-1.0, "0.1"))
    assert axis.edges[0] < axis.minor_ticks[0] < axis.minor_ticks[-1] < axis.edges[-1]


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([-3, -2, -1, 0, 1], "linear"),
        ([1, 2, 3, 4, 5], "linear"),
        ([0.0, 0.1, 0.2], "linear"),
        ([0.001, 0.003, 0.01, 0.1], "log"),
        ([0.5, 1.0], "linear"),
        ([8, 64], "log"),
        (["a", "b"], "category"),
        ([True, False], "category"),
        ([1, None], "category"),
        ([64], "category"),
        ([None], "category"),
        ([], "category"),
    ],
)
def test_the_scale_of_an_axis_follows_its_values(values, scale):
    axis = lay_out(values)
    assert axis.scale == scale
    assert len(axis.edges) == len(axis.values) + 1
    assert list(axis.edges) == sorted(axis.edges)
    assert all(low < at < high for low, at, high in zip(axis.edges, axis.positions, axis.edges[1:], strict=False))


def test_ticks_that_do_not_fit_are_left_out_evenly():
    axis = lay_out([2**k for k in range(12)])
    assert [label for _, label in axis.spaced_ticks(2.0, 0.3)] == ["1", "4", "16", "64", "256", "1024"]
    assert len(axis.spaced_ticks(6.0, 0.3)) == 12


def test_every_panel_has_the_same_scale_and_its_means_where_the_table_has_them(make):
    points, rows = make.grid(
        ["nap", "bert"], [8, 16, 32], [0.1, 0.01], outcome=lambda model, x, y, seed: ("ok", x / 40 * (model == "nap"))
    )
    figure = draw(points, rows)
    assert [axes.get_title() for axes in panels(figure)] == ["nap", "bert"]
    meshes = [next(art for art in axes.collections if isinstance(art, QuadMesh)) for axes in panels(figure)]
    means = [[0.2, 0.4, 0.8]] * 2
    assert np.allclose(meshes[0].get_array(), COLOURS(np.array(means)))
    assert np.allclose(meshes[1].get_array(), COLOURS(0.0))  # an accuracy of 0 is a colour, and no hole
    assert legend(figure) == set()


def test_missing_failed_diverged_and_unmeasured_cells_are_marked_apart_and_explained(make):
    found = {1: None, 2: ("failed", None), 4: ("diverged", None), 8: ("ok", None), 16: ("ok", 0.0)}
    points, rows = make.grid(["nap"], found, [0.1, 0.01], 2, outcome=lambda x, **_: found[x])
    figure = draw(points, rows)
    (panel,) = panels(figure)
    marks = [art for art in panel.collections if isinstance(art, PatchCollection) and len(art.get_facecolor())]
    looks = {(tuple(art.get_facecolor()[0]), art.get_hatch()) for art in marks}
    assert len(looks) == len(MARKS) == 4
    assert len([art for art in panel.collections if isinstance(art, LineCollection)]) == 1
    assert legend(figure) == {LEGEND[name] for name in ("missing", "failed", "diverged", "unmeasured")}


def test_only_marks_that_occur_are_explained(make):
    points, rows = make.grid(["nap"], [8, 16], [0.1], outcome=lambda x, **_: None if x == 8 else ("ok", 0.5))
    assert legend(draw(points, rows)) == {LEGEND["missing"]}


def test_a_partly_diverged_cell_keeps_the_colour_of_the_others_and_says_over_how_many(make):
    points, rows = make.grid(
        ["nap"], [8, 16], [0.1], 3, outcome=lambda x, seed, **_: ("diverged", None) if x == seed + 8 else ("ok", 0.5)
    )
    figure = draw(points, rows)
    (panel,) = panels(figure)
    assert [text.get_text() for text in panel.texts] == ["2"]
    assert len(next(art for art in panel.collections if isinstance(art, LineCollection)).get_segments()) == 2
    assert legend(figure) == {LEGEND["some diverged"], LEGEND["fewer"]}


def test_every_name_of_an_axis_of_names_is_there(make):
    names = ["softmax attention", "linear attention", "sum pooling", "max pooling", "no mixing at all", "and so on"]
    (panel,) = panels(draw(*make.grid(["nap"], names, [0.1, 0.01], x="mixer"), x="mixer"))
    assert [label.get_text() for label in panel.get_xticklabels()] == names


def test_a_place_that_the_study_does_not_plan_is_blank_and_said_so(make):
    wide, tall = make.grid(["nap"], [8, 16], [0.1]), make.grid(["nap"], [8], [0.01])
    assert legend(draw(wide[0] + tall[0], wide[1] | tall[1])) == {LEGEND["unplanned"]}


@pytest.mark.parametrize(
    "study",
    [
        (["nap"], [8], [0.1], 1),
        (["nap"], [8, 64], [0.1], 1),
        (["nap", "a name that is quite long"], ["softmax", "linear", "none"], [True, False], 1),
        ([f"model {number}" for number in range(7)], [1, 2, 3], [0.1, 0.01], 1),
        (["nap"], [], [], 1),
    ],
)
def test_every_shape_of_study_is_drawn_within_the_figure(make, tmp_path, study):
    figure = draw(*make.grid(*study), chance=0.2)
    png, svg = save(figure, tmp_path / "figure")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert b"</svg>" in svg.read_bytes()
    renderer = figure.canvas.get_renderer()
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1
    boxes = [axes.get_tightbbox(renderer) for axes in panels(figure)]
    for drawn in figure.legends:
        assert not any(drawn.get_window_extent().overlaps(box) for box in boxes)


def test_twenty_models_of_forty_by_forty_cells_take_a_few_megabytes(make, tmp_path):
    points, rows = make.grid(
        [f"model {number}" for number in range(20)],
        [int(10 * 1.2**k) for k in range(40)],
        [0.9 * 0.8**k for k in range(40)],
        1,
        outcome=lambda model, x, y, seed: None if x == 12 else ("diverged", None) if y > 0.7 else ("ok", y),
    )
    png, svg = save(draw(points, rows), tmp_path / "large")
    assert svg.stat().st_size < 4e6
    assert png.stat().st_size < 4e6


def test_the_same_table_gives_the_same_bytes(make, tmp_path):
    points, rows = make.grid(
        ["nap", "bert"], [8, 16], [0.1, 0.01], outcome=lambda x, **_: None if x == 8 else ("ok", 0.5)
    )
    first, again = (save(draw(points, rows), tmp_path / name) for name in ("first", "again"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_a_robustness_curve_has_a_distinct_line_for_each_model_and_says_what_is_incomplete(make):
    models = [f"model {number}" for number in range(20)]
    points, rows = make.grid(
        models,
        [1, 2, 4],
        [0.1],
        1,
        outcome=lambda model, x, **_: None if (model, x) == (models[0], 4) else ("ok", x / 4),
    )
    curve = tables.robustness_curve(cells_of(points, rows, "width", "learning_rate"))
    figure = figures.robustness_curves(curve, models=models, metric=METRIC, chance=0.1)
    lines = figure.axes[0].get_lines()
    assert len(lines) == 21
    assert len({(line.get_color(), str(line._unscaled_dash_pattern)) for line in lines[:20]}) == 20
    assert lines[0].get_label() == "model 0 (2 of 3 cells)"
    assert list(lines[1].get_ydata()) == [1.0, 1.0, 0.5, 0.25]
    assert list(lines[1].get_xdata()) == pytest.approx([0, 100 / 3, 200 / 3, 100])
    assert lines[20].get_label() == "trivial answer"


def test_learning_curves_draw_the_mean_in_a_band_from_the_lowest_to_the_highest_run():
    table = [
        {"model": "nap", "which": "best", "epoch": e, "mean": e / 10, "lowest": e / 20, "highest": e / 5}
        for e in (1, 2, 3)
    ] + [{"model": "bert", "which": "worst", "epoch": 1, "mean": 0.5, "lowest": 0.5, "highest": 0.5}]
    best, worst = figures.learning_curves(table, models=["sum", "nap", "bert"], metric=METRIC).axes
    assert (best.get_title(), worst.get_title()) == ("best cell", "worst cell")
    (nap,), (bert,) = best.get_lines(), worst.get_lines()
    assert (list(nap.get_xdata()), list(nap.get_ydata())) == ([1, 2, 3], [0.1, 0.2, 0.3])
    assert best.collections[0].get_paths()[0].get_extents().bounds == pytest.approx((1, 0.05, 2, 0.55))
    curve = [{"model": "nap", "share": 1.0, "score": 0.5, "low": None, "n_cells": 1, "n_planned_cells": 1}]
    (other,) = figures.robustness_curves(curve, models=["sum", "nap"], metric=METRIC).axes
    assert other.get_lines()[0].get_color() == nap.get_color()  # one colour for a model, whichever others are drawn
    assert bert.get_marker() == "o"  # a line of one point would not be seen


def test_a_pairwise_matrix_has_each_difference_twice_and_brackets_what_is_not_clear():
    base = {"n": 9, "low": None, "high": None, "p": 0.01}
    table = [
        {"model": "nap", "other": "sum", "difference": 0.125, "p_holm": 0.01, **base},
        {"model": "nap", "other": "max", "difference": -0.02, "p_holm": 0.3, **base},
        {"model": "sum", "other": "max", "difference": None, "p_holm": None, **base},
    ]
    matrix = figures.pairwise_matrix(table, models=["nap", "sum", "max"], metric=METRIC).axes[0]
    assert [text.get_text() for text in matrix.texts] == ["", "+12.5", "(-2.0)", "-12.5", "", "–", "(+2.0)", "–", ""]


def test_a_robustness_curve_of_nothing_is_drawn():
    figure = figures.robustness_curves([], models=[], metric=METRIC)
    assert figure.axes[0].get_lines()[:] == []


def test_drawing_leaves_pyplot_alone():
    code = (
        "import sys; from results import figures; from results.heatmaps import panels, panels_of, scale_of;"
        "from results.cells import cells; found = cells([{'id': 1, 'model': 'nap', 'seed': 0}], {}, None, None);"
        "panels(panels_of(found), found, scale_of(found));"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0
