"""Compaction: fewer files, the same answers, whoever else is at work and whenever it is killed."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import chain, repeat
from pathlib import Path

import pytest
from hammer import EPOCHS, TRIALS_A_FLUSH

from results import compaction
from results.shards import new_stem
from results.store import Outcome, Store

HAMMER = Path(__file__).with_name("hammer.py")
ROOT = Path(__file__).parents[2]


def start(store: Store, name: str, *flushes: str) -> subprocess.Popen:
    command = [sys.executable, str(HAMMER), str(store.path), name, *flushes]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})


def files(store: Store) -> dict[str, int]:
    return {kind: len(list((store.path / kind).iterdir())) for kind in ("trials", "curves")}


def answers(store: Store) -> tuple:
    """All that the store says, in an order that does not depend on its shards."""
    rows = store.trials().sort_by("id").to_pylist()
    curves = store.curves().sort_by([("id", "ascending"), ("epoch", "ascending")]).to_pylist()
    return store.outcomes(), rows, curves


def assert_every_row_has_its_curves(store: Store) -> None:
    ids = store.trials(["id"])["id"].to_pylist()
    epochs = Counter(store.curves(ids)["id"].to_pylist())
    assert len(ids) == len(set(ids))
    assert epochs == dict.fromkeys(ids, EPOCHS)
    assert store.problems == []


def test_small_shards_become_one_and_the_answers_stay(store, make):
    for seed in range(30):
        make.append(store, make.trial_row(seed, accuracy=seed / 30))
    before = answers(store)
    assert store.compact() == 30
    assert files(store) == {"trials": 1, "curves": 1}
    assert answers(store) == before
    assert store.compact() == 0


def test_only_the_rows_that_count_are_kept(store, make):
    make.append(store, make.trial_row(1, status="failed"), make.trial_row(2, status="failed"), epochs=1)
    make.append(store, make.trial_row(1, status="ok", attempt=2), epochs=4)
    store.compact()
    (stem,) = store.stems("trials")
    assert len(store.read("trials", stem, ["id"])) == 2
    assert len(store.read("curves", stem, ["id"])) == 5
    assert sorted(store.outcomes().values()) == [Outcome("failed", 1), Outcome("ok", 2)]


def test_a_superseded_row_does_not_come_back(store, make):
    make.append(store, make.trial_row(status="ok", accuracy=0.25))
    make.append(store, make.trial_row(status="failed", attempt=9))
    make.append(store, make.trial_row(status="oom", attempt=8))
    for _ in range(3):
        store.compact()
        make.append(store, make.trial_row(status="failed", attempt=10))
        assert store.trials(["final_eval_accuracy"]).to_pylist() == [{"final_eval_accuracy": 0.25}]


def test_large_shards_are_left_alone(store, make):
    make.append(store, *(make.trial_row(seed) for seed in range(60)))
    (large,) = store.stems("trials")
    for seed in range(100, 110):
        make.append(store, make.trial_row(seed))
    assert store.compact(max_rows=100) == 10
    assert large in store.stems("trials")
    assert len(store.stems("trials")) == 2


def test_a_merged_shard_is_no_larger_than_asked(store, make):
    for start_ in range(0, 100, 4):
        make.append(store, *(make.trial_row(seed) for seed in range(start_, start_ + 4)))
    assert store.compact(max_rows=40) == 25
    sizes = [len(store.read("trials", stem, ["id"])) for stem in store.stems("trials")]
    assert sorted(sizes) == [20, 40, 40]
    assert len(store.outcomes()) == 100


def test_compacting_again_and_again_rewrites_each_trial_a_few_times_only(store, make, monkeypatch, unsynced):
    monkeypatch.setattr(compaction, "SMALL", 4)
    written = 0
    for seed in range(64):
        make.append(store, make.trial_row(seed), epochs=1)
        before = set(store.stems("trials"))
        store.compact()
        written += sum(len(store.read("trials", stem, ["id"])) for stem in set(store.stems("trials")) - before)
    assert len(store.outcomes()) == 64
    assert len(store.stems("trials")) <= 10
    assert written < 64 * 9  # one that always merged everything would write 2,000


def test_a_bad_shard_is_left_as_it_is(store, make):
    for seed in range(4):
        make.append(store, make.trial_row(seed))
    stem = store.stems("trials")[1]
    path = store.path / "curves" / f"{stem}.parquet"
    content = bytearray(path.read_bytes())
    content[50] ^= 0xFF  # within a page: the footer is whole, so only reading it all can tell
    path.write_bytes(content)
    assert store.compact() == 3
    assert stem in set(store.stems("trials")) & set(store.stems("curves"))
    assert path.read_bytes() == content
    assert any(stem in problem for problem in store.problems)


def test_what_a_kill_left_goes_after_an_hour_and_not_before(store, make):
    make.append(store, make.trial_row(1))
    make.append(store, make.trial_row(2))
    orphan = store.path / "curves" / f"{store.stems('trials')[1]}.parquet"
    (store.path / "trials" / orphan.name).unlink()
    leftover = store.path / "trials" / f".{new_stem()}.parquet.abc.tmp"
    leftover.write_text("half a shard")
    mine = store.path / "trials" / "notes.txt"
    mine.write_text("mine")
    store.compact()
    assert orphan.exists()
    assert leftover.exists()
    for path in (orphan, leftover, mine):
        os.utime(path, times=(time.time() - 3700,) * 2)
    store.compact()
    assert not orphan.exists()
    assert not leftover.exists()
    assert mine.exists()
    assert len(store.outcomes()) == 1


@pytest.mark.parametrize("steps", range(6))
def test_a_compaction_that_dies_after_any_step_loses_nothing(store, make, monkeypatch, steps):
    for seed in range(2):
        make.append(store, make.trial_row(seed, accuracy=seed / 2))
    before = answers(store)
    left = iter(range(steps))

    def step_or_die(step):
        def stepped(*arguments):
            if next(left, None) is None:
                raise KeyboardInterrupt
            step(*arguments)

        return stepped

    with monkeypatch.context() as patch:
        patch.setattr(store, "save", step_or_die(store.save))
        patch.setattr(store, "delete", step_or_die(store.delete))
        with pytest.raises(KeyboardInterrupt):
            store.compact()
    assert answers(store) == before
    assert store.problems == []
    store.compact()
    assert answers(store) == before


@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize("moment", ["trials", "curves"])
def test_a_reader_finds_everything_when_shards_vanish_before_it_opens_them(store, make, monkeypatch, moment, which):
    trials = [make.trial_row(seed) for seed in range(6)]
    for trial in trials:
        make.append(store, trial)
    read = Store.read

    def compact_first(self, kind, stem, columns):
        if kind == moment and stem == self.stems("trials")[which]:
            monkeypatch.setattr(Store, "read", read)
            Store(store.path).compact()
        return read(self, kind, stem, columns)

    for ask in (store.outcomes, store.trials, store.curves):
        make.append(store, trials[0] | {"attempt": 2})
        monkeypatch.setattr(Store, "read", compact_first)
        answer = ask()
        ids = answer if isinstance(answer, dict) else answer["id"].to_pylist()
        assert set(ids) == {trial["id"] for trial in trials}
        assert store.problems == []


def test_a_listing_that_misses_both_a_merged_shard_and_those_it_replaced_is_not_believed(store, make, monkeypatch):
    make.append(store, make.trial_row())
    listings = chain([store.stems("trials"), []], repeat(store.stems("trials")))
    monkeypatch.setattr(store, "stems", lambda kind: next(listings))
    assert len(store.outcomes()) == 1


def test_a_process_killed_while_it_appends_and_compacts_leaves_no_partial_trial(store):
    acknowledged = set()
    luck = random.Random(0)
    for round_ in range(6):
        process = start(store, f"round{round_}")
        assert process.stdout is not None
        acknowledged.add(process.stdout.readline().strip())  # it is at work: the rest is chance
        time.sleep(luck.uniform(0.01, 0.4))
        process.send_signal(signal.SIGKILL)
        acknowledged.update(process.communicate()[0].split())
        assert_every_row_has_its_curves(store)
        assert acknowledged <= set(store.outcomes())
    store.compact()
    assert_every_row_has_its_curves(store)
    assert acknowledged <= set(store.outcomes())


def test_writers_compactors_and_a_reader_at_once_lose_and_repeat_nothing(store):
    flushes = 20
    processes = [start(store, f"writer{number}", str(flushes)) for number in range(3)]
    seen = 0
    while any(process.poll() is None for process in processes):
        assert_every_row_has_its_curves(store)
        assert len(store.outcomes()) >= seen
        seen = len(store.outcomes())
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert_every_row_has_its_curves(store)
    assert len(store.outcomes()) == 3 * flushes * TRIALS_A_FLUSH
    store.compact()
    assert len(store.outcomes()) == 3 * flushes * TRIALS_A_FLUSH
    assert files(store)["trials"] <= 4
