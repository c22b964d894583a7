"""Published results as a table: what it needs to be compared, and the commit that it is of."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from results.published import COLUMNS, NEEDED, PublishedError, check_published, head_commit, load_published

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "published_trials.parquet"
COMMIT = "0ea196dad2a660521aba3b37f0a2bb946a6d3cb2"


def test_a_file_with_the_needed_columns_alone_is_enough_whatever_their_width(tmp_path):
    path = tmp_path / "mine.parquet"
    row = {"task": "mode", "model": "nap", "axis": "width", "axis_value": 8, "learning_rate": 0.3, "run": 0}
    row = row | {"best_eval_accuracy": np.float32(0.5), "note": "mine"}
    pq.write_table(pa.Table.from_pylist([row]), path)
    loaded = load_published(path)
    assert loaded.select(NEEDED).schema == pa.schema([COLUMNS.field(name) for name in NEEDED])
    assert loaded.to_pylist() == [row]


def test_a_needed_column_that_is_missing_is_named(tmp_path):
    table = pa.table({name: pa.array([], COLUMNS.field(name).type) for name in NEEDED})
    check_published(table)
    for name in NEEDED:
        with pytest.raises(PublishedError, match=f"lack the column {name};"):
            check_published(table.drop_columns([name]))
    pq.write_table(table.drop_columns(["axis", "run"]), tmp_path / "mine.parquet")
    with pytest.raises(PublishedError, match=r"mine\.parquet: published results lack the columns axis, run; needed"):
        load_published(tmp_path / "mine.parquet")


def test_a_needed_column_with_gaps_or_of_another_type_is_named():
    row = dict.fromkeys(NEEDED, "x") | {"axis_value": 8.0, "learning_rate": 0.3, "run": 0, "best_eval_accuracy": 0.5}
    with pytest.raises(PublishedError, match="without a value in the column run"):
        check_published(pa.Table.from_pylist([row, row | {"run": None}]))
    with pytest.raises(PublishedError, match="column run of published results is string, not int64"):
        check_published(pa.Table.from_pylist([row | {"run": "first"}]))


def test_what_is_no_parquet_file_is_one_clear_line(tmp_path):
    with pytest.raises(PublishedError, match=r"cannot read published results from .*nowhere: no such file"):
        load_published(tmp_path / "nowhere")
    (tmp_path / "text").write_text("task,model\n")
    with pytest.raises(PublishedError, match="cannot read published results from") as error:
        load_published(tmp_path / "text")
    assert "\n" not in str(error.value)


@pytest.mark.skipif(not REFERENCE.exists(), reason="the published results are not part of this project")
def test_the_published_results_at_hand_have_these_columns():
    assert pq.read_schema(REFERENCE).equals(COLUMNS)
    assert load_published(REFERENCE).num_rows == 4_000


def test_the_commit_is_read_from_loose_packed_and_detached_heads_and_from_worktrees(tmp_path):
    git = tmp_path / "clone" / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    assert head_commit(git.parent) is None
    (git / "HEAD").write_text("ref: refs/heads/master\n")
    assert head_commit(git.parent) is None
    (git / "packed-refs").write_text(
        f"# pack-refs with: peeled\n{'1' * 40} refs/heads/other\n{COMMIT} refs/heads/master\n"
    )
    assert head_commit(git.parent) == COMMIT[:7]
    (git / "refs" / "heads" / "master").write_text("2" * 40 + "\n")
    assert head_commit(git.parent) == "2" * 7
    worktree, linked = tmp_path / "worktree", git / "worktrees" / "worktree"
    worktree.mkdir()
    linked.mkdir(parents=True)
    (worktree / ".git").write_text(f"gitdir: {linked}\n")
    (linked / "HEAD").write_text("ref: refs/heads/master\n")
    (linked / "commondir").write_text("../..\n")
    assert head_commit(worktree) == "2" * 7
    (git / "HEAD").write_text(f"{COMMIT}\n")
    assert head_commit(git.parent) == COMMIT[:7]
    (git / "HEAD").write_text("no commit\n")
    assert head_commit(git.parent) is None
