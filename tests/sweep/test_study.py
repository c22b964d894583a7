"""Studies: axes, unions, counting, overrides, and errors that teach."""

import itertools
import time

import pytest

from sweep.boxes import union_size
from sweep.errors import UsageError
from sweep.study import Study, study_names

HEAD = 'title = "t"\ntask = "mode"\n'


def study(body: str, sets=()) -> Study:
    return Study("test", HEAD + body, sets)


def axis_of(name: str, form: str) -> list:
    made = study(f'[grid]\nmodel = ["sum"]\n{name} = {form}')
    return list(made.grids[0].axes[name])


@pytest.mark.parametrize(
    ("name", "form", "values"),
    [
        ("width", "[8, 16]", [8, 16]),
        ("width", "8", [8]),
        ("width", "{ base = 2, from = 3, to = 6 }", [8, 16, 32, 64]),
        ("width", "{ base = 2, from = 6, to = 3 }", [64, 32, 16, 8]),
        ("seed", "{ count = 3 }", [0, 1, 2]),
        ("seed", "{ count = 3, from = 5 }", [5, 6, 7]),
        ("case_bias", "{ from = 0, to = 0, step = 1 }", [0]),
        ("weight_decay", "{ from = 0.1, to = 0.3, step = 0.1 }", [0.1, 0.2, 0.3]),
        ("depth", "{ from = 5, to = 1, step = -2 }", [5, 3, 1]),
        ("init_scale", "{ base = 4, from = -3, to = 4 }", [4.0**n for n in range(-3, 5)]),
        (
            "learning_rate",
            "{ base = 0.3, from = 1, to = 10 }",
            [0.3, 0.09, 0.027, 0.0081, 0.00243, 7.29e-4, 2.187e-4, 6.561e-5, 1.9683e-5, 5.9049e-6],
        ),
    ],
)
def test_axes_are_exactly_the_numbers_one_would_write(name, form, values):
    assert axis_of(name, form) == values


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("[grid]\nmodel = ['sum']\nwidth = []", "grid.width is empty"),
        ("[grid]\nmodel = ['sum']\nseed = { count = 0 }", "grid.seed is empty"),
        ("[grid]\nmodel = ['sum']\nwidth = { from = 3, to = 1, step = 1 }", "grid.width is empty"),
        ("[grid]\nmodel = ['sum']\nwidth = [8, 8]", "has 8 twice"),
        ("[grid]\nmodel = ['sum']\nwidth = { start = 3 }", "an axis is a list, { base, from, to }"),
        ("[grid]\nmodel = ['sum']\nwidth = { base = 2, from = 1.5, to = 3 }", "from = 1.5 should be a whole number"),
        ('[grid]\nmodel = ["sum"]\nwidth = { base = "a", from = 1, to = 3 }', 'base = "a" should be a finite number'),
        (
            "[grid]\nmodel = ['sum']\nlearning_rate = { base = -0.3, from = 1, to = 3 }",
            "base = -0.3 should be positive",
        ),
        ("[grid]\nmodel = ['sum']\nwidth = { from = 1, to = 3, step = 0 }", "never gets from 1 to 3"),
        ('[grid]\nmodel = ["sum"]\nwidth = ["wide"]', 'width = "wide": must be a whole number'),
        ("[grid]\nmodel = ['sum']\nlearning_rate = [nan]", "learning_rate"),
        ("[grid]\nmodel = ['sum']\nlearning_rate = [inf]", "learning_rate"),
        ("[grid]\nmodel = ['sum']\nlearning_rate = [0]", "greater than 0"),
        ("[grid]\nmodel = ['sum']\nwidth = [0]", "must be at least 1"),
        ("[grid]\nmodel = ['sum']\nwidth = [1e400]", "width"),
        ('[grid]\nmodel = ["sum"]\nschedule = ["cosine"]', "must be one of linear, warmup_linear"),
        ("[grid]\nmodel = ['sum']\nwitdh = [8]", "did you mean width"),
        ("[fixed]\nwidth = 8\n[grid]\nmodel = ['sum']\nwidth = [8]", "in \\[fixed\\] and in \\[grid\\]"),
        (
            "[fixed]\nwidth = [8]\n[grid]\nmodel = ['sum']\nseed = [0]",
            "width = \\[8\\]: must be a whole number",
        ),
        ("[grid]", "needs at least one axis"),
        ("grid = 3", "grid should be a table of axes"),
        ("", "grid is missing"),
        ("[grid]\nmodel = ['sum']\nseed = [0]\n[figur]\n", "did you mean figure"),
        ("[grid]\nmodel = ['sum']\nseed = [0]\n[figure]\nz = 3", 'unknown key "z": there are x, y'),
        (
            '[grid]\nmodel = ["sum"]\nseed = [0]\nwidth = [8]\n[figure]\nx = "widht"',
            'figure.x: unknown axis "widht": did you mean width',
        ),
        ('[grid]\nmodel = ["sum"]\nseed = [0]\nwidth = [8]\n[figure]\nx = "length"', 'figure.x: unknown axis "length"'),
        ('[grid]\nmodel = ["sum"]\nwidth = [8]\n[figure]\nx = "width"\ny = "width"', "both width"),
        ("[grid]\nmodel = ['sum']\nwidth = [8]\nwidth = [9]", "line 6: width is set twice"),
        ("[grid\nwidth = [8]", "not valid TOML: .*line 3"),
        ('[grid]\nmodel = ["nap"]\nwidth = [9]', "4 heads do not divide it"),
        ('[grid]\nmodel = ["nap"]\ntask = ["mode"]', "keep one of them"),
        ("[grid]\nmodel = ['sum']\nseed = { count = 1e99999999999 }", "too large or too small"),
        ("[grid]\nmodel = ['sum']\nlearning_rate = [1e9999999999999999999]", "too large or too small"),
        ("[grid]\nmodel = ['sum']\nseed = { count = 9223372036854775808 }", "an axis has at most"),
        ("[grid]\nmodel = ['sum']\nwidth = { base = 2, from = 1, to = 1_000_000 }", "an exponent is at most"),
        (
            "[grid]\nmodel = ['sum']\nlearning_rate = { from = 1, to = 1.0000000000000000001, step = 1e-20 }",
            "too small",
        ),
        ("[grid]\nmodel = ['sum']\nwidth = " + "[" * 3000 + "]" * 3000, "nested too deeply"),
        ("[grid]\nmodel = ['sum']\nseed = [" + "9" * 5000 + "]", "too many digits"),
        ("[grid]\nmodel = ['sum']\nlength = [2147483647]", "evaluation length = 4,294,967,294: at most"),
        ("[fixed]\nsamples_per_class = 2147483647\n[grid]\nmodel = ['sum']", "steps = .*: at most"),
        ("[grid]\nmodel = ['NAP']", "did you mean nap"),
        ("[grid]\nmodel = ['sum']\nseed = [0]\n[figure]\nx = 'seed'", "a cell has all seeds"),
        ("[grid]\nmodel = ['sum']\nwidth = [", "at the end, after line 5"),
    ],
)
def test_a_wrong_study_is_refused_with_one_line_that_names_the_place(body, says):
    with pytest.raises(UsageError, match=says) as caught:
        study(body)
    assert "\n" not in str(caught.value)


def test_a_top_level_value_is_told_where_it_belongs():
    with pytest.raises(UsageError, match=r"width stand in \[fixed\] or \[grid\]"):
        Study("test", 'title = "t"\ntask = "mode"\nwidth = 8\n[grid]\nseed = [0]\n')


def test_a_product_counts_and_expands_with_the_last_axis_fastest():
    made = study('[grid]\nmodel = ["nap", "sum"]\nwidth = [8, 16]\nseed = { count = 2 }')
    assert len(made) == 8
    assert [(t.model, t.width, t.seed) for t in made.trials()][:3] == [("nap", 8, 0), ("nap", 8, 1), ("nap", 16, 0)]


def test_a_union_counts_what_blocks_share_once():
    made = study(
        '[[grid]]\nmodel = ["nap", "sum"]\nwidth = [8, 16]\nseed = { count = 3 }\n'
        '[[grid]]\nmodel = ["nap", "bert"]\nwidth = [16, 32]\nseed = { count = 2, from = 2 }'
    )
    trials = list(made.trials())
    assert len(made) == len(trials) == len({trial.id for trial in trials}) == 12 + 8 - 1
    assert made.points_count == 20


def test_points_that_make_one_trial_are_one():
    made = study('[grid]\nmodel = ["nap", "sum"]\nheads = [1, 2, 4]\nwidth = [8]')
    assert len(made) == len(list(made.trials())) == 4
    ablation = study('[grid]\nmodel = ["bert", "mte"]\nclip_norm = [0, 1]\nschedule = ["linear", "warmup_linear"]')
    assert len(ablation) == len(list(ablation.trials())) == 8
    coupled = study('[grid]\nmodel = ["sum"]\nsamples_per_epoch = [64, 65, 128]\nbatch_size = [32, 64]')
    assert len(coupled) == len(list(coupled.trials())) == 4


def test_a_study_knows_its_trials_without_expanding():
    made = study('[[grid]]\nmodel = ["nap"]\nwidth = [8, 16]\n[[grid]]\nmodel = ["sum"]\nseed = { count = 9 }')
    for trial in made.trials():
        assert trial in made
    stranger = next(study('[grid]\nmodel = ["sum"]\nwidth = [8]').trials())
    assert stranger not in made


@pytest.mark.parametrize(
    "grid",
    [
        "width = { from = 4, to = 4096, step = 4 }\nseed = { count = 1048576 }",
        "length = { from = 2, to = 257, step = 1 }\nwidth = { from = 4, to = 1024, step = 4 }\n"
        "seed = { count = 16384 }",
        "steps_per_epoch = { from = 1, to = 16384, step = 1 }\nseed = { count = 65536 }",
        "seed = { count = 1073741824 }\n[[grid]]\nmodel = ['nap']\nseed = { count = 16, from = 1073741808 }",
    ],
)
def test_two_to_the_thirty_trials_are_counted_in_a_second(grid):
    started = time.process_time()
    made = study(f"[[grid]]\nmodel = ['nap']\n{grid}")
    assert len(made) == 2**30
    first = next(made.trials())
    assert first in made
    assert time.process_time() - started < 1.5


def test_a_long_axis_knows_its_values_without_walking_it():
    made = study("[grid]\nmodel = ['sum']\nlearning_rate = { from = 0.001, to = 1000, step = 0.001 }")
    rates = made.grids[0].axes["learning_rate"]
    assert len(rates) == 1_000_000 and rates[2] == 0.003 and rates[-1] == 1000.0
    assert 0.003 in rates and 999.999 in rates and 0.0035 not in rates and 1001.0 not in rates


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (["width=8"], {8}),
        (["width=8,16"], {8, 16}),
        (["width=[8, 16]"], {8, 16}),
        (["width={ base = 2, from = 3, to = 4 }"], {8, 16}),
        ([], {8, 16, 32}),
    ],
)
def test_set_narrows_or_replaces_an_axis(sets, expected):
    made = study('[grid]\nmodel = ["sum"]\nwidth = [8, 16, 32]', sets)
    assert {trial.width for trial in made.trials()} == expected


def test_set_changes_a_fixed_value_and_can_make_it_an_axis():
    body = '[fixed]\nlength = 16\n[grid]\nmodel = ["sum", "max"]'
    assert {trial.length for trial in study(body, ["length=8"]).trials()} == {8}
    assert len(study(body, ["length=8,16,32"])) == 6
    assert {trial.model for trial in study(body, ["model=mean,none"]).trials()} == {"mean", "none"}
    assert {trial.task for trial in study(body, ["task = cases"]).trials()} == {"cases"}
    assert {trial.learning_rate for trial in study(body, ["learning_rate=.001"]).trials()} == {0.001}
    assert {trial.steps_per_epoch for trial in study(body, ["samples_per_epoch=64"]).trials()} == {2}


def test_set_twice_is_refused():
    with pytest.raises(UsageError, match="width is set twice"):
        study('[grid]\nmodel = ["sum"]\nwidth = [8]', ["width=8", "width=16"])


def test_a_study_larger_than_python_can_count_has_a_size():
    axes = "learning_rate = { from = 1e-6, to = 1.048576, step = 1e-6 }\nseed = { count = 33554432 }"
    made = study(f"[grid]\nmodel = ['sum']\n{axes}\nweight_decay = {{ from = 0, to = 33554431, step = 1 }}")
    assert made.size == 2**70


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbf" + (HEAD + '[grid]\nmodel = ["sum"]\n').replace("\n", "\r\n").encode())
    assert len(Study.load(file)) == 1


def test_set_replaces_what_says_the_same_in_another_way():
    body = '[fixed]\nsamples_per_epoch = 640\n[grid]\nmodel = ["sum"]'
    assert {trial.steps_per_epoch for trial in study(body, ["steps_per_epoch=5"]).trials()} == {5}
    axis = '[grid]\nmodel = ["sum"]\nsteps_per_epoch = [3, 4]'
    assert {trial.steps_per_epoch for trial in study(axis, ["samples_per_epoch=64"]).trials()} == {2}


def test_set_holds_in_every_block():
    body = '[[grid]]\nmodel = ["sum"]\nwidth = [8, 16]\n[[grid]]\nmodel = ["max"]\nseed = { count = 2 }'
    made = study(body, ["width=32"])
    assert {(trial.model, trial.width) for trial in made.trials()} == {("sum", 32), ("max", 32)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("width", "write NAME=VALUE"),
        ("width=", "write NAME=VALUE"),
        ("widht=8", "did you mean width"),
        ("width=wide", "whole number"),
        ("width=9", "do not divide"),
        ("learning_rate=fast", "must be a number"),
        ("width=8,8", "8 twice"),
        ("length=1e400", "length"),
        ("seed=0\nevil=1", "whole number"),
        ("model=sum,,max", "an empty value between commas"),
        ("=8", "write NAME=VALUE"),
    ],
)
def test_a_wrong_set_is_refused(text, says):
    with pytest.raises(UsageError, match=says):
        study('[grid]\nmodel = ["nap"]\nwidth = [8]', [text])


@pytest.mark.parametrize("name", study_names())
def test_every_study_that_ships_expands(name):
    made = Study.load(name)
    assert next(made.trials()) in made
    assert made.title and len(made) == len({trial.id for trial in made.trials()})


def test_the_papers_width_sweeps_are_the_papers():
    made = Study.load("paper/mode-width")
    assert len(made) == 6 * 8 * 10 * 5
    trial = next(made.trials())
    paper = (trial.length, trial.depth, trial.heads, trial.batch_size, trial.epochs, trial.steps_per_epoch)
    assert paper == (128, 2, 4, 32, 32, 100)
    assert trial.vocabulary == 10 and Study.load("paper/cases-width").trials().__next__().vocabulary == 100


def test_an_unknown_study_has_near_matches():
    with pytest.raises(UsageError, match="did you mean quickstart"):
        Study.load("quikstart")
    with pytest.raises(UsageError, match=r"cannot read study .*missing\.toml"):
        Study.load("missing.toml")


def test_the_figure_knows_a_shared_trial_by_every_name_it_has():
    made = study(
        "[[grid]]\nmodel = ['mte']\nseed = { count = 2 }\n"
        "[[grid]]\nmodel = ['bert']\nnorm_placement = ['post', 'branch']\nmix_norm = ['layer']\n"
        "mix_activation = ['gelu']\nhidden_norm = [true]\nclip_norm = [0]\nschedule = ['linear']\n"
        "seed = { count = 2 }"
    )
    labels = [(point["model"], point["norm_placement"]) for point, _ in made.points()]
    assert sorted(set(labels)) == [("bert", "branch"), ("bert", "post"), ("mte", "branch")]
    assert len(labels) == 6 and len(made) == len(list(made.trials())) == 4


def test_a_task_without_cases_has_no_samples_per_case():
    assert len(study("[grid]\nmodel = ['sum']\nsamples_per_case = [10, 20]")) == 1


def test_unions_of_boxes_are_counted_as_by_expanding_them():
    boxes = [
        {"a": [1, 2, 3], "b": range(4), "c": ["x"]},
        {"a": [3, 4], "b": range(2, 9), "c": ["x", "y"]},
        {"a": [2, 3], "b": [1, 8], "c": ["y"]},
    ]
    everything = {point for box in boxes for point in itertools.product(*box.values())}
    assert union_size(boxes) == len(everything)
    assert union_size(boxes[:1]) == 12 and union_size([]) == 0
    ranges = [{"a": range(2, 9), "b": [1]}, {"a": range(5, 20), "b": [1, 2]}, {"a": range(30, 31), "b": [2]}]
    assert union_size(ranges) == len({p for box in ranges for p in itertools.product(*box.values())})
