"""The store of one process: what is appended can be read, each trial once, whatever lies beside it."""

import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from results.schema import CURVES, OLDER, SCHEMA_VERSION, TRIALS, VERSION_KEY
from results.shards import new_stem
from results.store import Outcome, Store, StoreError


def shard(store: Store, kind: str, number: int = 0) -> Path:
    return sorted((store.path / kind).glob("*.parquet"))[number]


def test_what_is_appended_is_read_back_with_its_types(store, make):
    trial = make.trial_row(seed=3, accuracy=0.25)
    make.append(store, trial)
    assert store.outcomes() == {trial["id"]: Outcome("ok", 1)}
    rows = store.trials()
    assert rows.schema == TRIALS
    assert rows.to_pylist() == [dict.fromkeys(TRIALS.names) | trial]
    assert store.curves().schema == CURVES
    assert store.curves().to_pylist() == make.curve_rows(trial)
    assert store.problems == []


def test_a_store_that_does_not_exist_reads_as_empty_and_stays_absent(store):
    assert (store.outcomes(), len(store.trials()), len(store.curves())) == ({}, 0, 0)
    assert store.trials().schema == TRIALS
    assert store.compact() == 0
    store.append([], [])
    assert not store.path.exists()


def test_only_the_columns_asked_for_are_read(store, make):
    make.append(store, make.trial_row(accuracy=0.75))
    assert store.trials(["final_eval_accuracy", "model"]).to_pylist() == [{"final_eval_accuracy": 0.75, "model": "nap"}]
    with pytest.raises(ValueError, match="no such column in the store: accuracy"):
        store.trials(["id", "accuracy"])


def test_curves_of_chosen_trials_are_those_and_no_others(store, make):
    trials = [make.trial_row(seed) for seed in range(4)]
    make.append(store, *trials[:2])
    make.append(store, *trials[2:])
    wanted = {trials[1]["id"], trials[2]["id"]}
    curves = store.curves([*wanted, "unknown"])
    assert set(curves["id"].to_pylist()) == wanted
    assert len(curves) == 6


def test_curves_can_be_handed_over_as_a_table(store, make):
    trial = make.trial_row()
    store.append([trial], pa.Table.from_pylist(make.curve_rows(trial), schema=CURVES).drop_columns(["loss"]))
    assert [row["loss"] for row in store.curves().to_pylist()] == [None, None, None]


@pytest.mark.parametrize(
    ("trials", "curves", "message"),
    [
        ([{"id": "a", "status": "ok", "acuracy": 1.0}], [], "no such column in the store: acuracy"),
        ([{"id": "a", "status": "ok"}], [{"id": "a", "step": 1}], "no such column in the store: step"),
        ([{"id": "a", "status": "done"}], [], "unknown status done: one of ok, diverged, failed, oom"),
        ([{"status": "ok"}], [], "a trial's row has no id"),
        ([{"id": "a", "status": "ok"}, {"id": "a", "status": "ok"}], [], "trials given twice in one append: a"),
        ([{"id": "a", "status": "ok"}], [{"id": "b"}], "curves of trials that are not in this append: b"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused_and_nothing_is_written(store, trials, curves, message):
    with pytest.raises(ValueError, match=message):
        store.append(trials, curves)
    assert not store.path.exists()


def test_a_result_beats_a_failure_however_late_the_failure(store, make):
    make.append(store, make.trial_row(status="diverged", attempt=1))
    make.append(store, make.trial_row(status="failed", attempt=2))
    assert list(store.outcomes().values()) == [Outcome("diverged", 1)]


def test_among_failures_the_higher_attempt_counts(store, make):
    make.append(store, make.trial_row(status="oom", attempt=2))
    make.append(store, make.trial_row(status="failed", attempt=1))
    assert list(store.outcomes().values()) == [Outcome("oom", 2)]


def test_among_equal_attempts_the_later_one_counts_with_its_own_curves(store, make):
    make.append(store, make.trial_row(accuracy=0.9, finished_at=make.START + timedelta(hours=1)), epochs=5)
    make.append(store, make.trial_row(accuracy=0.1, finished_at=make.START), epochs=2)
    assert store.trials(["final_eval_accuracy"]).to_pylist() == [{"final_eval_accuracy": 0.9}]
    assert len(store.curves()) == 5


def test_of_two_equal_rows_the_larger_stem_counts(store, make):
    make.append(store, make.trial_row(accuracy=0.1))
    make.append(store, make.trial_row(accuracy=0.9))
    assert store.trials(["final_eval_accuracy"]).to_pylist() == [{"final_eval_accuracy": 0.9}]


def test_a_rerun_that_succeeds_replaces_the_failure(store, make):
    make.append(store, make.trial_row(status="failed"), epochs=0)
    assert list(store.outcomes().values()) == [Outcome("failed", 1)]
    make.append(store, make.trial_row(attempt=2))
    assert list(store.outcomes().values()) == [Outcome("ok", 2)]
    assert len(store.trials()) == 1


def test_one_id_with_two_different_values_is_an_error_that_names_them(store, make):
    make.append(store, make.trial_row(width=64, depth=2, id="a" * 32))
    make.append(store, make.trial_row(width=65, depth=2, id="a" * 32))
    with pytest.raises(StoreError, match=f"trial {'a' * 32} with two different values of width:"):
        store.trials(["status"])
    with pytest.raises(StoreError, match="two different values of width"):
        store.compact()


def test_a_value_that_an_older_row_lacks_is_no_contradiction(store, make):
    make.append(store, make.trial_row(depth=2, id="a" * 32))
    make.append(store, make.trial_row(id="a" * 32))
    assert len(store.trials()) == 1


@pytest.mark.parametrize("kind", ["trials", "curves"])
@pytest.mark.parametrize("damage", ["zero bytes", "garbage", "truncated", "another file's schema", "a directory"])
def test_a_bad_shard_is_named_and_its_trials_are_missing_and_the_rest_is_read(store, make, kind, damage):
    lost, kept = make.trial_row(1), make.trial_row(2)
    make.append(store, lost)
    make.append(store, kept)
    path = shard(store, kind)
    whole = path.read_bytes()
    if damage == "another file's schema":
        pq.write_table(pa.table({"x": [1]}), path)
    elif damage == "a directory":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes({"zero bytes": b"", "garbage": b"garbage" * 99, "truncated": whole[: len(whole) // 2]}[damage])
    for read in (store.outcomes, store.trials, store.curves):
        read()
        assert len(store.problems) == 1
        assert store.problems[0].startswith(f"{kind}/{path.name}: ")
        assert "\n" not in store.problems[0]
    assert list(store.outcomes()) == [kept["id"]]
    assert store.trials()["id"].to_pylist() == [kept["id"]]
    assert set(store.curves()["id"].to_pylist()) == {kept["id"]}


def test_a_flipped_bit_in_a_column_is_found_by_its_checksum(store, make):
    make.append(store, *(make.trial_row(seed) for seed in range(50)))
    path = shard(store, "trials")
    content = bytearray(path.read_bytes())
    content[100] ^= 0xFF  # in the first column, the ids
    path.write_bytes(content)
    assert store.outcomes() == {}
    assert path.name in store.problems[0]


def test_a_trial_whose_curves_are_gone_is_missing(store, make):
    make.append(store, make.trial_row())
    shard(store, "curves").unlink()
    assert store.outcomes() == {}
    assert store.problems == [f"curves/{shard(store, 'trials').name}: missing. Its trials count as missing."]


def test_problems_are_those_of_the_last_read(store, make):
    make.append(store, make.trial_row())
    path = shard(store, "trials")
    whole = path.read_bytes()
    path.write_bytes(b"")
    store.outcomes()
    assert store.problems
    path.write_bytes(whole)
    store.outcomes()
    assert not store.problems


def test_stray_and_temporary_files_are_ignored(store, make):
    make.append(store, make.trial_row())
    for name in (f".{new_stem()}.parquet.abc.tmp", ".DS_Store", "notes.txt", ".hidden.parquet"):
        (store.path / "trials" / name).write_text("not a shard")
    (store.path / "README").write_text("mine")
    assert len(store.outcomes()) == len(store.trials()) == 1
    assert not store.problems


def test_curves_without_trials_are_not_shown(store, make):
    make.append(store, make.trial_row(1))
    make.append(store, make.trial_row(2))
    shard(store, "trials", 1).unlink()
    assert set(store.curves()["id"].to_pylist()) == {make.trial_row(1)["id"]}
    assert not store.problems


def with_version(path: Path, version: int, drop: str | None = None) -> None:
    table = pq.read_table(path)
    table = table.drop_columns([drop]) if drop else table
    pq.write_table(table.replace_schema_metadata({VERSION_KEY: str(version)}), path)


def test_a_shard_of_an_older_schema_reads_with_nulls_for_what_came_later(store, make):
    make.append(store, make.trial_row(1))
    make.append(store, make.trial_row(2))
    with_version(shard(store, "trials"), version=0, drop="host")
    assert store.trials(["host", "seed"]).to_pylist() == [{"host": None, "seed": 1}, {"host": "ada", "seed": 2}]
    assert store.trials().schema == TRIALS
    assert store.compact() == 2
    assert store.trials(["host"])["host"].to_pylist() == [None, "ada"]


def test_what_an_older_trial_had_is_read_where_its_shard_lacks_the_column(store, make):
    make.append(store, make.trial_row(1))
    make.append(store, {**make.trial_row(2), "dropout": 0.5, "causal": True, "position_scale": 4.0})
    old = shard(store, "trials")
    for name in OLDER:
        with_version(old, version=3, drop=name)
    expected = [{**OLDER, "seed": 1}, {"causal": True, "position_scale": 4.0, "dropout": 0.5, "seed": 2}]
    for _ in range(2):
        assert sorted(store.trials([*OLDER, "seed"]).to_pylist(), key=lambda row: row["seed"]) == expected
        assert [row["dropout"] for row in store.trials().sort_by("seed").to_pylist()] == [0.0, 0.5]
        store.compact()
    assert set(OLDER) <= set(TRIALS.names)


@pytest.mark.parametrize("kind", ["trials", "curves"])
def test_a_newer_store_is_refused_with_what_to_do(store, make, kind):
    make.append(store, make.trial_row())
    with_version(shard(store, kind), version=7)
    for read in (store.outcomes, store.trials, store.curves, store.compact):
        with pytest.raises(StoreError, match=r"newer version of sweep \(schema 7; this one reads up to") as error:
            read()
        assert str(SCHEMA_VERSION) in str(error.value)
        assert str(error.value).endswith("upgrade sweep, or use another --store")


def test_checking_whether_one_may_write_leaves_no_trace(tmp_path):
    Store(tmp_path / "deep" / "down" / "store").check_writable()
    Store(tmp_path).check_writable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["file", "file/store", "file/deep/store", "dangling"])
def test_a_path_that_cannot_be_a_store_is_refused_in_one_line(tmp_path, make, path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    store = Store(tmp_path / path)
    with pytest.raises(StoreError, match=r"cannot write to the store .*is not a folder") as error:
        store.check_writable()
    assert "\n" not in str(error.value)
    with pytest.raises(StoreError, match="cannot write to the store"):
        make.append(store, make.trial_row())
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that nobody can write to, not even root")
def test_a_folder_that_takes_no_files_is_refused_with_the_reason():
    with pytest.raises(StoreError, match=r"cannot write to the store /proc/self/store: .+"):
        Store("/proc/self/store").check_writable()


def test_reading_what_is_a_file_says_so(tmp_path):
    (tmp_path / "store").write_text("mine")
    with pytest.raises(StoreError, match="is not a folder"):
        Store(tmp_path / "store").outcomes()


def test_a_failed_append_leaves_no_trial(store, make):
    make.append(store, make.trial_row(1))
    (store.path / "trials").rename(store.path / "elsewhere")
    (store.path / "trials").write_text("in the way")
    with pytest.raises(StoreError, match="cannot write to the store"):
        make.append(store, make.trial_row(2))
    (store.path / "trials").unlink()
    (store.path / "elsewhere").rename(store.path / "trials")
    assert list(store.outcomes()) == [make.trial_row(1)["id"]]


def test_the_stems_of_one_process_sort_by_time_and_follow_a_clock_that_is_ahead():
    stems = [new_stem() for _ in range(100)]
    assert len(set(stems)) == 100
    assert stems[0] < new_stem()
    ahead = "29991231T235959999998Z-ffffffffffff"
    assert new_stem(after=[stems[0], ahead]) > ahead


def test_importing_the_store_loads_no_drawing_library():
    code = "import sys, results.store; sys.exit(bool({'matplotlib', 'jinja2', 'pandas', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0


def test_a_flush_costs_the_same_in_a_full_store_and_reading_ids_is_fast_beside_writing_them(store, make, unsynced):
    trials = [make.trial_row(seed) for seed in range(10_000)]
    seconds = []
    for start in range(0, len(trials), 20):
        begin = time.perf_counter()
        make.append(store, *trials[start : start + 20], epochs=2)
        seconds.append(time.perf_counter() - begin)
    assert sorted(seconds[-100:])[50] < 3 * sorted(seconds[:100])[50]
    begin = time.perf_counter()
    assert len(store.outcomes()) == 10_000
    assert time.perf_counter() - begin < sum(seconds) / 2


def test_a_link_to_nothing_is_a_bad_shard_and_not_a_store_in_motion(tmp_path):
    store = Store(tmp_path)
    store.append([{"id": "a", "status": "ok", "attempt": 1}], [])
    (tmp_path / "trials" / "dangling.parquet").symlink_to("nowhere")
    assert list(store.outcomes()) == ["a"]
    assert len(store.problems) == 1 and "dangling.parquet: a link to nothing" in store.problems[0]


@pytest.mark.parametrize(
    "row", [{"id": None, "status": "ok"}, {"id": "b", "status": "finished"}, {"id": "b", "status": None}]
)
def test_a_shard_with_a_row_that_cannot_be_is_a_bad_shard(tmp_path, row):
    store = Store(tmp_path)
    store.append([{"id": "a", "status": "ok", "attempt": 1}], [])
    for kind, schema, rows in (("trials", TRIALS, [row]), ("curves", CURVES, [])):
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / kind / "odd.parquet")
    assert list(store.outcomes()) == ["a"]
    assert "odd.parquet" in store.problems[0]


def test_what_could_not_be_saved_whole_takes_no_room(tmp_path, monkeypatch):
    store = Store(tmp_path)
    save = store.save

    def full(kind, stem, tables):
        if kind == "trials":
            raise OSError(28, "No space left on device")
        save(kind, stem, tables)

    monkeypatch.setattr(store, "save", full)
    with pytest.raises(StoreError, match="No space left on device"):
        store.append([{"id": "a", "status": "ok", "attempt": 1}], [])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
