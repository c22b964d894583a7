"""A study on Ray: its rows are those of a run in this process, and a trial that kills its workers is found."""

import os
from pathlib import Path

import pytest

from cluster.connect import Slots
from cluster.ray_pool import RayExecutor
from results.store import Store
from sweep.plan import make_plan
from sweep.run import run
from sweep.study import Study
from sweep.work import train_pack

ROOT = Path(__file__).parents[2]
TWO = Slots(cpus=1, most=2)
SMALL = ["width=8", "model=sum,nap", "learning_rate=0.01", "epochs=2", "steps_per_epoch=5", "eval_samples=32",
         "seed={count=5}"]  # fmt: skip


def deadly(payload):
    """Trains, but for one seed that ends the process."""
    if any(trial.seed == 3 and trial.mixer == "sum" for trial in payload.trials):
        os._exit(1)
    yield from train_pack(payload)


@pytest.fixture
def executor(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    started = []

    def start(function, slots=TWO) -> RayExecutor:
        started.append(RayExecutor(function, slots))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_a_trial_that_kills_its_workers_is_found_and_the_others_are_trained(tmp_path, executor):
    store = Store(tmp_path)
    plan = make_plan(Study.load("quickstart", SMALL), store, pack_width=2)
    outcome = run(plan, store, executor(deadly), threads=1)
    rows = {(row["model"], row["seed"]): row for row in store.trials().to_pylist()}
    assert len(rows) == outcome.done == 10 and outcome.failed == 1
    bad = rows.pop(("sum", 3))
    assert bad["status"] == "failed" and "poison: 3 worker processes died" in bad["error"]
    assert all(row["status"] == "ok" for row in rows.values())
    assert {row["threads"] for row in rows.values()} == {1}


def test_rows_are_those_of_a_run_in_this_process(tmp_path, executor):
    from cluster.inline import InlineExecutor

    study, found = Study.load("quickstart", SMALL), []
    for name, made in (("ray", executor(train_pack)), ("inline", InlineExecutor(train_pack))):
        store = Store(tmp_path / name)
        run(make_plan(study, store), store, made, threads=1)
        kept = ("id", "status", "final_eval_loss", "best_eval_accuracy", "attempt")
        found.append(sorted(tuple(row[name] for name in kept) for row in store.trials().to_pylist()))
    assert found[0] == found[1]


def wild(payload):
    """Trains trials alone in their packs, and does for some seeds of `sum` what programs do."""
    (trial,) = payload.trials
    do = {10: "exit", 11: "raise", 12: "print", 13: "allocate"}.get(trial.seed) if trial.mixer == "sum" else None
    if do == "exit":
        os._exit(1)
    if do == "raise":
        raise ValueError("as told")
    if do == "print":
        for _ in range(1000):
            print("x" * 10_000)
    if do == "allocate":
        bytearray(8 * 2**30)
    yield from train_pack(payload)


def test_eight_workers_end_27_trials_each_as_it_should(tmp_path, executor):
    store = Store(tmp_path)
    sets = [each for each in SMALL if not each.startswith(("seed", "model"))]
    plan = make_plan(Study.load("quickstart", [*sets, "model=sum", "seed={count=27}"]), store, pack_width=1)
    outcome = run(plan, store, executor(wild, Slots(cpus=1, most=8, memory=6 * 2**30)), threads=1)
    rows = {row["seed"]: row for row in store.trials().to_pylist()}
    assert len(rows) == outcome.done == 27 == store.trials().num_rows and outcome.failed == 3
    ends = {seed: row["status"] for seed, row in rows.items() if row["status"] != "ok"}
    assert ends == {10: "failed", 11: "failed", 13: "oom"}
    assert "poison: 3 worker processes died" in rows[10]["error"] and "ValueError: as told" in rows[11]["error"]
    assert rows[12]["status"] == "ok"
