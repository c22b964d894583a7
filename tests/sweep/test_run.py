"""The loop: exactly once, never lost, failures apart, and running twice is running once."""

import io
import json

import pyarrow.compute as pc
import pytest

from cluster.inline import InlineExecutor
from results import StoreError
from results.store import Store
from sweep.errors import InfrastructureError
from sweep.packs import MOST_IN_A_PACK, PACK_ELEMENTS, pack_width, packs_of
from sweep.plan import check_identity, make_plan
from sweep.run import Limits, Outcome, run
from sweep.study import Study
from sweep.trial import Trial, as_row
from sweep.work import PackDone, provenance, train_pack

TINY = """
title = "tiny"
task = "cases"
[fixed]
length = 8
width = 8
epochs = 2
steps_per_epoch = 3
batch_size = 4
eval_samples = 8
samples_per_case = 2
[grid]
model = ["nap", "sum"]
learning_rate = [0.01, 0.001]
seed = { count = 3 }
"""


def study(*sets: str) -> Study:
    return Study("tiny", TINY, sets)


def run_it(store: Store, made: Study, function=train_pack, **options) -> tuple[Outcome, str]:
    """Runs a study; how it ended and what was printed meanwhile."""
    plan_options = {key: options.pop(key) for key in ("retry_failed", "pack_width") if key in options}
    stream = io.StringIO()
    plan = make_plan(made, store, **plan_options)
    return run(plan, store, InlineExecutor(function), stream=stream, **options), stream.getvalue()


def instant(payload):
    """A training that takes no time."""
    yield PackDone([{**as_row(t), **provenance(payload), "status": "ok", "attempt": 1} for t in payload.trials], [])


def test_a_run_gives_every_trial_one_row_with_whole_curves(tmp_path):
    store = Store(tmp_path / "store")
    outcome, _ = run_it(store, study())
    rows = store.trials().to_pylist()
    assert outcome.done == len(rows) == 12
    assert {row["id"] for row in rows} == {trial.id for trial in study().trials()}
    assert {row["status"] for row in rows} == {"ok"}
    curves = store.curves()
    per_epoch = 2 + 3 * 2  # train, eval, three cases at two lengths
    assert len(curves) == 12 * 2 * per_epoch
    assert set(curves["case"].to_pylist()) == {"all", "argmin", "first", "argmax"}
    assert {(c["split"], c["length"]) for c in curves.to_pylist() if c["case"] == "all"} == {("train", 8), ("eval", 4)}


def test_a_row_says_what_ran_where_and_how_it_went(tmp_path):
    store = Store(tmp_path)
    run_it(store, study("seed=1", "model=nap", "learning_rate=0.01"), threads=1)
    (row,) = store.trials().to_pylist()
    (trial,) = study("seed=1", "model=nap", "learning_rate=0.01").trials()
    assert Trial.from_row(row) == trial
    assert row["wall_seconds"] > 0 and row["train_flops"] == trial.train_flops
    assert row["device"] == "cpu" and row["threads"] == 1 and row["torch_version"] and row["sweep_version"]
    curve = [c for c in store.curves().to_pylist() if c["split"] == "eval" and c["case"] == "all"]
    accuracies = [c["correct"] / c["count"] for c in sorted(curve, key=lambda c: c["epoch"])]
    assert row["final_eval_accuracy"] == row["last_eval_accuracy"] == accuracies[-1]
    assert row["best_eval_accuracy"] == max(accuracies)
    assert row["best_eval_epoch"] == accuracies.index(max(accuracies)) + 1


def test_running_twice_is_running_once(tmp_path):
    store = Store(tmp_path)
    run_it(store, study())
    assert make_plan(study(), store).to_run == []
    assert run_it(store, study())[0].done == 0


def test_a_grown_study_runs_only_what_is_new_and_shares_what_is_there(tmp_path):
    store = Store(tmp_path)
    run_it(store, study("seed=0,1"))
    grown = make_plan(study("seed=0,1,2,3"), store)
    assert len(grown.to_run) == 8 and grown.counts == {"ok": 8}
    other = make_plan(study("seed=1", "learning_rate=0.001"), store)
    assert other.to_run == [] and other.others == 6


def test_results_do_not_depend_on_how_trials_are_packed(tmp_path):
    precise = study("precision=fp64")
    losses = []
    for width in (1, 2, 64):
        store = Store(tmp_path / str(width))
        run_it(store, precise, pack_width=width)
        losses.append({row["id"]: row["final_eval_loss"] for row in store.trials().to_pylist()})
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)
    assert losses[0] == pytest.approx(losses[2], abs=1e-9)


def test_a_diverged_trial_is_a_result_with_its_step_and_is_not_run_again(tmp_path):
    store = Store(tmp_path)
    wild = study("learning_rate=0.01,1e38", "model=nap", "seed=0")
    outcome, _ = run_it(store, wild)
    rows = {row["learning_rate"]: row for row in store.trials().to_pylist()}
    assert outcome.diverged == 1 and outcome.failed == 0
    assert rows[1e38]["status"] == "diverged" and 0 < rows[1e38]["diverged_step"] < 6
    assert rows[1e38]["final_eval_accuracy"] is None
    assert rows[0.01]["status"] == "ok" and rows[0.01]["diverged_step"] is None
    assert make_plan(wild, store, retry_failed=True).to_run == []


def bad_seed_2(payload):
    """Training with a bug that one trial meets."""
    if any(trial.seed == 2 for trial in payload.trials):
        raise ArithmeticError("seed 2 is bad")
    yield from instant(payload)


def test_one_bad_trial_in_a_pack_fails_alone(tmp_path):
    store = Store(tmp_path)
    outcome, _ = run_it(store, study(), bad_seed_2)
    rows = store.trials().to_pylist()
    assert len(rows) == 12 and outcome.failed == 4
    assert {row["seed"] for row in rows if row["status"] == "failed"} == {2}
    assert outcome.errors == {"ArithmeticError: seed 2 is bad": 4}
    assert all("in bad_seed_2" in row["error"] for row in rows if row["status"] == "failed")


def test_failures_are_kept_apart_and_rerun_only_when_asked(tmp_path):
    store = Store(tmp_path)
    run_it(store, study(), bad_seed_2)
    assert make_plan(study(), store).to_run == []
    outcome, _ = run_it(store, study(), instant, retry_failed=True)
    rows = {row["id"]: row for row in store.trials().to_pylist()}
    assert outcome.done == 4 and len(rows) == 12 and {row["status"] for row in rows.values()} == {"ok"}


def test_a_second_failure_is_the_second_attempt(tmp_path):
    store = Store(tmp_path)
    run_it(store, study("seed=2"), bad_seed_2)
    run_it(store, study("seed=2"), bad_seed_2, retry_failed=True)
    assert set(store.trials()["attempt"].to_pylist()) == {2}


def small_memory(payload):
    """A device on which two models fit, and no `sum` at all."""
    if len(payload.trials) > 2 or payload.trials[0].mixer == "sum":
        raise MemoryError("allocating 9 GiB")
    yield from instant(payload)


def test_out_of_memory_halves_the_pack_and_only_what_never_fits_is_oom(tmp_path):
    store = Store(tmp_path)
    _, printed = run_it(store, study(), small_memory)
    by_model = {(row["model"], row["status"]) for row in store.trials().to_pylist()}
    assert by_model == {("nap", "ok"), ("sum", "oom")}
    assert "out of memory: a pack of 6 trials is halved" in printed
    packs = pc.value_counts(store.trials()["pack_width"]).to_pylist()
    assert max(pack["values"] for pack in packs) == 2


def always_bad(payload):
    raise ArithmeticError("never works")
    yield


@pytest.mark.parametrize("allowed", [1, 3])
def test_a_run_stops_when_too_many_trials_have_failed(tmp_path, allowed):
    store = Store(tmp_path)
    outcome, _ = run_it(store, study(), always_bad, limits=Limits(max_failures=allowed), pack_width=1)
    assert outcome.stopped == "failures" and outcome.failed == allowed
    assert len(store.outcomes()) == allowed


def test_failed_trials_do_not_stop_the_others_unless_asked(tmp_path):
    store = Store(tmp_path)
    outcome, _ = run_it(store, study(), always_bad)
    assert outcome.stopped is None and outcome.failed == 12


def test_a_bad_shard_makes_its_trials_missing_again_and_is_named(tmp_path):
    store = Store(tmp_path)
    run_it(store, study("model=nap"))
    run_it(store, study("model=sum"))
    shard = sorted((tmp_path / "trials").iterdir())[0]
    shard.write_bytes(shard.read_bytes()[:100])
    plan = make_plan(study(), store)
    assert {trial.mixer for trial in plan.to_run} == {"nap"}
    assert any(shard.name in problem for problem in plan.problems)
    run_it(store, study())
    assert len(store.outcomes()) == 12


def test_finished_packs_are_in_the_store_before_the_next_one_ends(tmp_path):
    store = Store(tmp_path)
    seen = []

    def slow(payload):
        seen.append(len(store.outcomes()))
        for message in instant(payload):
            for row in message.rows:
                row["wall_seconds"] = 10.0
            yield message

    run_it(store, study(), slow, pack_width=2)
    assert seen == [0, 2, 4, 6, 8, 10]


def test_short_packs_share_files(tmp_path):
    store = Store(tmp_path)
    run_it(store, study("seed={count=50}"), instant, pack_width=1)
    assert len(store.outcomes()) == 200
    assert len(list((tmp_path / "trials").iterdir())) <= 2


def test_a_store_that_breaks_meanwhile_is_said_with_what_was_lost(tmp_path):
    store = Store(tmp_path / "store")

    def breaks(payload):
        (tmp_path / "store").write_text("a file where the folder should be")
        yield from instant(payload)

    with pytest.raises(InfrastructureError, match="finished trials are not saved and will run again"):
        run_it(store, study(), breaks)


def test_a_row_whose_values_are_not_its_ids_is_an_error(tmp_path):
    one, other = list(study("seed=0,1", "model=nap", "learning_rate=0.01").trials())
    row = {**as_row(other), "id": one.id}
    with pytest.raises(StoreError, match=f"{one.id} is stored with another seed"):
        check_identity(iter([row]), {one.id: one})


def test_a_plan_of_a_study_too_large_to_expand_still_counts_what_is_done(tmp_path):
    store = Store(tmp_path)
    run_it(store, study(), instant)
    large = make_plan(study("seed={count=1000000}"), store, max_trials=1000)
    assert large.trials == 4_000_000 and large.counts == {"ok": 12} and large.packs is None
    assert json.loads(json.dumps(large.as_json()))["missing"] == 4_000_000 - 12


def test_packs_are_of_one_shape_and_longest_first():
    packs = packs_of(study("width=8,16", "seed={count=40}").trials())
    assert all(len({trial.shape for trial in pack}) == 1 for pack in packs)
    costs = [len(pack) * pack[0].cost for pack in packs]
    assert costs == sorted(costs, reverse=True)
    assert max(map(len, packs)) <= MOST_IN_A_PACK
    assert sum(map(len, packs)) == 320
    assert max(map(len, packs_of(study().trials(), 5))) == 3, "six trials in packs of at most five are three and three"


def test_wide_shapes_get_narrow_packs():
    wide = Trial.from_values(dict(task="cases", model="nap", width=1024))
    tiny = Trial.from_values(dict(task="cases", model="nap", width=8, length=8, batch_size=4))
    assert pack_width(wide) == 1 and pack_width(tiny) == MOST_IN_A_PACK
    middle = Trial.from_values(dict(task="cases", model="nap", width=16))
    assert pack_width(middle) * 32 * 128 * 16 <= PACK_ELEMENTS


def test_an_estimate_comes_from_this_stores_own_trials_when_there_are_any(tmp_path):
    store = Store(tmp_path)
    assert make_plan(study(), store).estimate.seconds is None
    run_it(store, study("seed=0"))
    plan = make_plan(study(), store)
    took = sum(row["wall_seconds"] for row in store.trials().to_pylist())
    assert plan.estimate.basis == "measured trials of this store"
    assert plan.estimate.seconds == pytest.approx(2 * took)


def test_a_failed_trials_row_can_be_stored(tmp_path):
    def fails_once(payload):
        raise ValueError("no")
        yield

    store = Store(tmp_path)
    run_it(store, study("seed=0", "model=sum", "learning_rate=0.01"), fails_once)
    (row,) = store.trials().to_pylist()
    assert row["status"] == "failed" and row["error"].endswith("ValueError: no\n")


def test_a_plan_refuses_a_store_whose_values_are_not_its_ids(tmp_path):
    one, other = list(study("seed=0,1", "model=nap", "learning_rate=0.01").trials())
    store = Store(tmp_path)
    store.append([{**as_row(other), "id": one.id, "status": "ok", "attempt": 1}], [])
    with pytest.raises(StoreError, match="another seed"):
        make_plan(study(), store)


def test_a_row_written_under_an_older_models_name_is_still_that_trial(tmp_path):
    store = Store(tmp_path)
    run_it(store, study("seed=2", "model=sum"), bad_seed_2)
    renamed = [{**row, "model": "renamed", "status": "ok", "attempt": 2} for row in store.trials().to_pylist()]
    store.append(renamed, [])
    assert make_plan(study("seed=2", "model=sum"), store).counts == {"ok": 2}


def test_slow_failures_are_saved_as_they_come(tmp_path, monkeypatch):
    monkeypatch.setattr("sweep.run.UNSAVED_SECONDS", 0.0)
    store, seen = Store(tmp_path), []

    def fails(payload):
        seen.append(len(store.outcomes()))
        raise ArithmeticError("no")
        yield

    run_it(store, study("seed=0", "learning_rate=0.01"), fails)
    assert seen == [0, 1]


def test_a_compaction_that_fails_costs_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("results.store.compact", full)
    monkeypatch.setattr("sweep.run.UNSAVED_SECONDS", 0.0)
    store = Store(tmp_path)
    outcome, _ = run_it(store, study(), instant, pack_width=1)
    assert outcome.done == 12 == len(store.outcomes())
    with pytest.raises(StoreError, match=r"cannot compact .*: No space left on device"):
        store.compact()
