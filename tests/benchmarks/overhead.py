"""What a trial costs beside its training: 10,000 trials of a training that takes no time, through plan, run and store.

    python tests/benchmarks/overhead.py          in this process: at most 2 ms a trial
    python tests/benchmarks/overhead.py --ray    through two workers on a private Ray: at most 5 ms a trial

Prints milliseconds a trial, this process's memory at 1,000 and at 10,000 trials, and the store's files. Ends with 1
where a trial costs more than that, or memory grew by more than 50 MB.
"""

import io
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cluster.inline import InlineExecutor
from results.store import Store
from sweep import Study
from sweep.plan import make_plan
from sweep.run import run
from sweep.trial import as_row
from sweep.work import EpochDone, PackDone, Payload, provenance

RAY = "--ray" in sys.argv
MOST_MILLISECONDS = 5.0 if RAY else 2.0
MOST_GROWTH_MB = 50
EPOCHS = 4

STUDY = """
title = "overhead"
task = "mode"
[fixed]
length = 8
epochs = 4
[grid]
model = ["nap", "bert", "sum", "max"]
width = [8, 16, 32, 64, 128]
learning_rate = { base = 0.3, from = 1, to = 10 }
seed = { count = 50 }
"""


def empty_training(payload: Payload):
    """The messages and rows of a training, without one."""
    for epoch in range(EPOCHS):
        yield EpochDone(epoch + 1, EPOCHS, 0)
    stamp = {**provenance(payload), "status": "ok", "wall_seconds": 0.0, "attempt": 1}
    curve = {"attempt": 1, "case": "all", "loss": 1.0, "correct": 1, "count": 2}
    yield PackDone(
        [{**as_row(trial), **stamp} for trial in payload.trials],
        [
            {"id": trial.id, "epoch": epoch + 1, "split": split, "length": trial.length, **curve}
            for trial in payload.trials
            for epoch in range(EPOCHS)
            for split in ("train", "eval")
        ],
    )


def memory_mb() -> float:
    """Resident memory of this process now, MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def run_once(store: Store, study: Study) -> float:
    """Seconds of planning and running a study."""
    executor: Any = InlineExecutor(empty_training)
    if RAY:
        from cluster.connect import Slots
        from cluster.ray_pool import RayExecutor

        executor = RayExecutor(empty_training, Slots(most=2))
    started = time.perf_counter()
    plan = make_plan(study, store, pack_width=10)
    outcome = run(plan, store, executor, stream=io.StringIO())
    assert outcome.done == len(study)
    return time.perf_counter() - started


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        small = Study("overhead", STUDY, ["seed={count=5}"])
        run_once(Store(Path(folder) / "warm-up"), small)
        run_once(Store(Path(folder) / "small"), small)
        at_1000 = memory_mb()
        store, study = Store(Path(folder) / "large"), Study("overhead", STUDY)
        seconds = run_once(store, study)
        growth = memory_mb() - at_1000
        each = 1000 * seconds / len(study)
        again = time.perf_counter()
        assert not make_plan(study, store).to_run
        again = time.perf_counter() - again
        files = sum(1 for path in store.path.rglob("*") if path.is_file())
        print(f"{len(study):,} trials: {each:.2f} ms each (at most {MOST_MILLISECONDS})")
        print(f"memory: {at_1000:.0f} MB at 1,000 trials, {growth:+.0f} MB at 10,000 (at most +{MOST_GROWTH_MB})")
        print(f"planning again, all done: {again:.2f} s; the store has {files} files")
    sys.exit(each > MOST_MILLISECONDS or growth > MOST_GROWTH_MB)


if __name__ == "__main__":
    main()
