"""Result files of the NAP paper's code: they become rows of the right models, and what is unfinished, strange or
hostile does not become a number."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from results.published import COLUMNS, PublishedError, load_published, read_published, save_published
from results.published_sweeps import FOLDERS

METRICS = {"cases": 32, "mode": 4, "lg": 12, "ppi": 4, "rl": 4}
RATES = {"name": "learning_rate", "min": 1, "range": 2, "base": 0.3}
WIDTHS = {"name": "model_dimension", "min": 3, "range": 3, "base": 2}
COMMIT = "0ea196dad2a660521aba3b37f0a2bb946a6d3cb2"


def accuracy(epoch: int, rate: int, x: int, metric: int, run: int) -> float:
    """A number that tells where it stands, and grows with the epochs."""
    return 0.5 * metric + 0.1 * epoch + 0.03 * x + 0.01 * rate + 0.001 * run


def results(metrics: int, rates: int, xs: int, runs: int = 2, epochs: int = 3, value=accuracy) -> list:
    """results[epoch][learning rate][x][metric][run] as the paper's code keeps them: correct answers as NumPy's."""
    grid = [
        [[[[value(e, r, x, m, run) for run in range(runs)] for m in range(4)] for x in range(xs)] for r in range(rates)]
        for e in range(epochs)
    ]
    for e, epoch in enumerate(grid):
        for rate in epoch:
            for cell in rate:
                half = (metrics - 4) // 4
                for block in range(4):
                    for case in range(half):
                        correct = 10 * case + 100 * (block // 2) + e
                        number = np.int64(1_000 if block % 2 else correct)
                        cell.append([number] * runs)
    return grid


def write(
    root: Path, place: str, grid: list, x: dict | None = WIDTHS, y: dict | None = RATES, protocol: int = 3
) -> Path:
    """A result file with the parameters beside it."""
    path = root / f"{place}.pickle"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps((grid, 12, 0), protocol))
    if x is not None:
        path.with_name(f"{path.stem}_params.pickle").write_bytes(pickle.dumps([[x, y], {"layers": 2}], protocol))
    return path


@pytest.fixture
def clone(tmp_path) -> Path:
    folder = tmp_path / "normalized-attention"
    (folder / "paper_results").mkdir(parents=True)
    return folder


def rows_of(folder: Path, **options) -> list[dict]:
    return read_published(folder, **options).to_pylist()


def test_a_row_has_the_values_and_accuracies_of_its_run(clone):
    write(clone / "paper_results", "mode/var_dim/NAP", results(4, 2, 3))
    rows = rows_of(clone)
    assert len(rows) == 3 * 2 * 2
    assert [(row["axis_value"], row["learning_rate"], row["run"]) for row in rows[:5]] == [
        (8, 0.3, 0), (8, 0.3, 1), (8, 0.09, 0), (8, 0.09, 1), (16, 0.3, 0),
    ]  # fmt: skip
    assert {(row["task"], row["model"], row["axis"]) for row in rows} == {("mode", "nap", "width")}
    row = next(row for row in rows if (row["axis_value"], row["learning_rate"], row["run"]) == (32, 0.09, 1))
    assert row["final_train_accuracy"] == accuracy(2, 1, 2, 0, 1)
    assert row["final_eval_accuracy"] == row["best_eval_accuracy"] == accuracy(2, 1, 2, 1, 1)
    assert row["best_eval_epoch"] == 3
    assert row["final_case_argmin"] is None
    assert row["source_commit"] is None


def test_the_best_epoch_is_the_first_of_equals_and_each_accuracy_has_its_own(clone):
    curves = {0: (0.2, 0.4, 0.3), 1: (0.5, 0.6, 0.6)}
    grid = results(4, 2, 3, value=lambda e, r, x, m, run: curves.get(m, (1, 1, 1))[e])
    write(clone / "paper_results", "mode/var_dim/NAP", grid)
    row = rows_of(clone)[0]
    assert (row["best_eval_accuracy"], row["best_eval_epoch"], row["final_eval_accuracy"]) == (0.6, 2, 0.6)
    assert (row["best_train_accuracy"], row["final_train_accuracy"]) == (0.4, 0.3)


def test_case_accuracies_are_those_of_the_last_epoch_at_both_lengths(clone):
    write(clone / "paper_results", "cases/var_dim/max", results(32, 2, 3))
    row = rows_of(clone)[0]
    by_case = [row[f"final_{length}case_{case}"] for length in ("", "eval_") for case in ("argmin", "first", "argmax")]
    assert by_case == [0.002, 0.022, 0.052, 0.102, 0.122, 0.152]


def test_a_case_of_which_there_was_no_sequence_has_no_accuracy(clone):
    grid = results(32, 2, 3)
    grid[-1][0][0][4 + 7] = [np.int64(0)] * 2
    grid[-1][0][0][6] = [np.int64(5)]  # a run less: nobody knows whose
    write(clone / "paper_results", "cases/var_dim/max", grid)
    row = rows_of(clone)[0]
    assert (row["final_case_argmin"], row["final_case_first"], row["final_case_argmax"]) == (None, None, 0.052)


@pytest.mark.parametrize(
    ("folder", "task"),
    [
        ("cases", "cases"),
        ("cases/first_token_output", "cases_first"),
        ("mode", "mode"),
        ("lg", "local_global"),
    ],
)
@pytest.mark.parametrize(
    ("sweep", "axis", "first", "last", "count"),
    [
        ("var_dim", "width", 8, 1024, 8),
        ("var_layers", "depth", 1, 64, 7),
        ("var_heads", "heads", 1, 128, 8),
        ("var_seq", "length", 4, 512, 8),
        ("var_batch", "batch_size", 1, 128, 8),
        ("var_vocab", "vocabulary", 2, 256, 8),
        ("var_bias", "case_bias", -3, 4, 8),
        ("var_init", "init_scale", 4**-3, 4**4, 8),
        ("var_dropout_1_4_0.5", "dropout", 0.5, 0.0625, 4),
        ("var_l2_regularization_1_4_0.1", "weight_decay", 0.2, 0.0002, 4),
    ],
)
@pytest.mark.parametrize("described", [True, False])
def test_every_sweep_is_read_under_our_names(clone, folder, task, sweep, axis, first, last, count, described):
    grid = results(METRICS[folder.partition("/")[0]], 10, count, runs=1, epochs=1)
    x = FOLDERS[sweep] if described else None
    write(clone / "paper_results", f"{folder}/{sweep}/BERT", grid, x, {**RATES, "range": 10})
    rows = rows_of(clone)
    assert {(row["task"], row["model"], row["axis"]) for row in rows} == {(task, "bert", axis)}
    values = list(dict.fromkeys(row["axis_value"] for row in rows))
    assert (values[0], values[-1], len(values)) == (first, last, count)
    rates = list(dict.fromkeys(row["learning_rate"] for row in rows))
    assert (rates[0], rates[4], rates[-1], len(rates)) == (0.3, 0.00243, 5.9049e-6, 10)


def test_the_parameters_beside_a_file_say_what_was_swept_whatever_its_folder(clone):
    x = {"name": "layers", "min": 2, "range": 2, "base": None}
    write(clone / "paper_results", "mode/var_dim/NAP", results(4, 2, 2), x)
    assert {(row["axis"], row["axis_value"]) for row in rows_of(clone)} == {("depth", 2), ("depth", 3)}


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_results_kept_as_an_array_are_read_alike(clone, protocol):
    write(clone / "paper_results", "mode/var_dim/NAP", results(4, 2, 3), protocol=protocol)
    lists = rows_of(clone)
    write(clone / "paper_results", "mode/var_dim/NAP", np.array(results(4, 2, 3)), protocol=protocol)
    assert rows_of(clone) == lists


def test_unfinished_runs_have_no_row_and_are_told(clone):
    grid, told = results(4, 2, 3), []
    for epoch in grid:
        epoch[1][2] = [[] for _ in range(4)]  # never begun
        epoch[1][1] = [runs[:1] for runs in epoch[1][1]]  # the second run is to come
    grid[2][1][0][1] = grid[2][1][0][1][:1]  # lost its last evaluation
    write(clone / "paper_results", "mode/var_dim/NAP", grid)
    rows = rows_of(clone, skipped=told.append)
    found = [(row["axis_value"], row["run"]) for row in rows if row["learning_rate"] == 0.09]
    assert found == [(8, 0), (16, 0)]
    assert told == ["paper_results/mode/var_dim: 4 of 12 runs of NAP are not finished"]


def test_zeros_that_stand_for_no_run_are_told_from_a_model_that_is_never_right(clone):
    grid = results(4, 2, 3)
    for epoch in grid:
        epoch[0][0] = [[0.0, 0.0], [0.0, 0.0], [0.0, 4.6], [0.0, float("nan")]]
    write(clone / "paper_results", "mode/var_dim/NAP", grid)
    first = [row for row in rows_of(clone) if (row["axis_value"], row["learning_rate"]) == (8, 0.3)]
    assert [(row["run"], row["best_eval_accuracy"]) for row in first] == [(1, 0.0)]


def test_what_is_not_ours_is_left_out_unread_and_told(clone):
    root, told = clone / "paper_results", []
    write(root, "mode/var_dim/sum", results(4, 2, 3))
    for place in ("ppi/var_dim/NAP", "ppi/var_dim/MTE", "rl/var_dim/MAX", "ablation/cases/var_dim/BERT"):
        write(root, place, ["anything"])
    write(root, "cases/var_dim/MTE-no_gelu", ["anything"])
    write(root, "cases/var_epochs_1_2_2/MTE", ["anything"], {"name": "epochs", "min": 1, "range": 2, "base": 2})
    write(root, "cases/var_nothing/MTE", ["anything"], None)
    assert {row["model"] for row in rows_of(clone, skipped=told.append)} == {"sum"}
    assert told == [
        "paper_results/ablation/cases/var_dim: no task of this project",
        "paper_results/cases/var_dim: MTE-no_gelu is no model of this project",
        "paper_results/cases/var_epochs_1_2_2: no axis of this project",
        "paper_results/cases/var_nothing: no axis of this project",
        "paper_results/ppi/var_dim: no task of this project (2 files)",
        "paper_results/rl/var_dim: no task of this project",
    ]


def test_the_folder_of_results_itself_or_results_of_ones_own_are_read_too(clone):
    write(clone / "paper_results", "mode/var_dim/NAP", results(4, 2, 3))
    (clone / ".git").mkdir()
    (clone / ".git" / "HEAD").write_text(COMMIT)
    assert rows_of(clone / "paper_results") == rows_of(clone)
    assert {row["source_commit"] for row in rows_of(clone)} == {COMMIT[:7]}
    own = clone.parent / "own"
    write(own, "mode/var_dim/NAP", results(4, 2, 3))
    assert len(rows_of(own)) == 12


def test_a_folder_without_results_is_an_error(clone):
    with pytest.raises(PublishedError, match="there is no folder"):
        read_published(clone / "nowhere")
    (clone / "README.md").write_text("…")
    with pytest.raises(PublishedError, match="is no folder"):
        read_published(clone / "README.md")
    with pytest.raises(PublishedError, match=r"holds no result files like paper_results/cases/var_dim/NAP\.pickle"):
        read_published(clone)
    write(clone / "paper_results", "ppi/var_dim/NAP", results(4, 2, 3))
    with pytest.raises(PublishedError, match="holds no result files"):
        read_published(clone)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"a": 1}, r"\(results, finished runs, order\)"),
        (([], 0, 0), "list of epochs"),
        ((results(4, 3, 3), 0, 0), "3 learning rates where its sweep has 2"),
        ((results(4, 2, 4), 0, 0), "4 values of width where its sweep has 3"),
        ((results(32, 2, 3), 0, 0), "32 metrics where its sweep has 4"),
        (([[[0.5] * 3] * 2], 0, 0), "no metrics where its sweep has 4"),
        (([[[[0.5] * 4] * 3] * 2], 0, 0), "not lists of runs"),
        (([[[[[93.8]] * 4] * 3] * 2], 0, 0), "an accuracy that is not between 0 and 1"),
        (([[[[["0.5"]] * 4] * 3] * 2], 0, 0), "an accuracy that is not between 0 and 1"),
        (([[[[[float("nan")]] * 4] * 3] * 2], 0, 0), "an accuracy that is not between 0 and 1"),
        (([[[[[0.5] * 101] * 4] * 3] * 2], 0, 0), "not lists of runs"),
        (([[]] * 200_000, 0, 0), "more than 1,000,000 cells"),
    ],
)
def test_a_file_of_another_shape_is_one_clear_line(clone, content, reason):
    path = write(clone / "paper_results", "mode/var_dim/NAP", [])
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(PublishedError, match=rf"mode/var_dim/NAP\.pickle: .*{reason}") as error:
        read_published(clone)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ({"name": "layers"}, RATES, "not described by name, min, range and base"),
        ([1, 2], RATES, "not described"),
        ({**WIDTHS, "range": 10**9}, RATES, "no sensible values"),
        ({**WIDTHS, "base": -2}, RATES, "no sensible values"),
        ({**WIDTHS, "base": "2"}, RATES, "no sensible values"),
        ({**WIDTHS, "min": 10**6}, RATES, "no sensible values"),
        (WIDTHS, WIDTHS, "second axis is not the learning rate"),
    ],
)
def test_parameters_of_another_shape_are_one_clear_line(clone, x, y, reason):
    write(clone / "paper_results", "mode/var_dim/NAP", results(4, 2, 3), x, y)
    with pytest.raises(PublishedError, match=rf"NAP\.pickle: .*{reason}"):
        read_published(clone)


class Command:
    def __init__(self, command: str):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("name", ["NAP.pickle", "NAP_params.pickle"])
def test_a_file_that_would_run_something_is_refused_by_its_name_and_nothing_ran(clone, tmp_path, name):
    path = write(clone / "paper_results", "mode/var_dim/NAP", results(4, 2, 3)).with_name(name)
    path.write_bytes(pickle.dumps(([Command(f"touch {tmp_path}/touched")], 1, 0)))
    with pytest.raises(PublishedError, match=rf"NAP\.pickle: .*names {os.system.__module__}\.system"):
        read_published(clone)
    assert not (tmp_path / "touched").exists()


def test_a_cut_file_or_a_pointer_to_one_is_refused(clone):
    path = write(clone / "paper_results", "mode/var_dim/NAP", results(4, 2, 3))
    for data in (path.read_bytes()[:-40], b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"):
        path.write_bytes(data)
        with pytest.raises(PublishedError, match=r"NAP\.pickle: it is no whole pickle"):
            read_published(clone)


def test_what_is_imported_can_be_saved_and_loaded(clone, tmp_path):
    write(clone / "paper_results", "cases/first_token_output/var_dim/NAP", results(32, 2, 3))
    table = read_published(clone)
    assert table.schema == COLUMNS
    save_published(table, tmp_path / "published.parquet")
    assert load_published(tmp_path / "published.parquet") == table
