"""What `sweep status`, `sweep plan` and `sweep report` take on large stores: `make bench-report`, some minutes.

    python tests/benchmarks/report.py [--folder FOLDER] [--only COMMAND]

Makes three stores in FOLDER (a temporary one unless given; those that are there are used again):

    compacted    27,700 trials of `cases`, 32 epochs with every case measured, in two shards as a compaction leaves them
    sharded      the same in 500 shards
    million      1,000,000 trials of one epoch in 50 shards, those of the study scattered among them

Prints the seconds and the peak memory of each command beside what is allowed. Ends with 1 where one took more.
"""

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.schema import CURVES, TRIALS
from results.shards import new_stem, to_table
from results.store import Store
from sweep import Study
from sweep.trial import as_row

ROOT = Path(__file__).parents[2]

STUDY = """
title = "Case distinction over many widths and learning rates"
task = "cases"
[figure]
x = "width"
y = "learning_rate"
[[grid]]
model = ["nap", "bert", "mte", "non", "sum", "max"]
width = { from = 8, to = 188, step = 4 }
learning_rate = { base = 0.55, from = 1, to = 20 }
seed = { count = 5 }
[[grid]]
model = ["nap"]
width = 192
learning_rate = { base = 0.55, from = 1, to = 20 }
seed = { count = 5 }
"""
TRIALS_OF_STUDY = 27_700

STORES = {"compacted": 2, "sharded": 500, "million": 50}
"""Shards of each."""

MILLION = 1_000_000
ROW_GROUP = 250_000
MOST_SECONDS = {"status": 2.0, "plan": 5.0, "report": 25.0}
MOST_MEMORY = 2048  # MiB
MOST_HTML = 15.0  # MB
TRIES = {"status": 3, "plan": 3, "report": 1}
"""The best counts: what else the machine does can only add."""

BEST_ACCURACY = {"nap": 0.94, "bert": 0.72, "mte": 0.58, "non": 0.65, "sum": 0.3, "max": 0.91}
MEASUREMENTS = [
    ("train", 128, "all", 3200),
    ("eval", 64, "all", 1024),
    *(("eval", length, case, 1000) for length in (128, 64) for case in ("argmin", "first", "argmax")),
]
"""Split, length, case and count of what is measured after each epoch."""


@dataclass
class Cost:
    """What a command took: seconds, peak MiB, and MB of its page, if it writes one."""

    seconds: float
    memory: float
    html: float | None = None


def trials_of_study(study: Study) -> pa.Table:
    """A finished row for each of its trials: accuracies over a ridge of learning rates, above which runs diverge."""
    table = to_table([as_row(trial) for trial in study.trials()], TRIALS)
    assert len(table) == TRIALS_OF_STUDY
    random = np.random.default_rng(0)
    count, log_rate = len(table), np.log(table["learning_rate"].to_numpy())
    off_ridge = (log_rate + 4 + 0.5 * np.log(table["width"].to_numpy() / 8)) / 2
    best = np.array([BEST_ACCURACY[model] for model in table["model"].to_pylist()])
    accuracy = 0.26 + (best - 0.26) * np.exp(-(off_ridge**2)) + random.normal(0, 0.02, count)
    failed = random.random(count) < 0.003
    diverged = (random.random(count) < 0.4 * (off_ridge > 1)) & ~failed
    steps = random.integers(0, 3200, count)
    columns = {
        "status": np.select([failed, diverged], ["failed", "diverged"], "ok"),
        "error": pa.array(["Traceback (most recent call last):\nRuntimeError: it broke"] * count, mask=~failed),
        "diverged_step": pa.array(steps.astype(np.int32), mask=~diverged),
        "best_eval_epoch": pa.array(random.integers(1, 33, count).astype(np.int32), mask=failed),
        "wall_seconds": random.gamma(4, 10, count),
        "pack_width": np.full(count, 16, np.int32),
        "threads": np.ones(count, np.int32),
        "attempt": np.ones(count, np.int32),
        "finished_at": pa.array([datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=n) for n in range(count)]),
        **{name: pa.array([text] * count) for name, text in {"device": "cpu", "host": "ada", "git_commit": "abc1234",
           "sweep_version": "0.1.0", "torch_version": "2.13.0"}.items()},
    }  # fmt: skip
    for split, ahead in (("train", 0.02), ("eval", 0.0)):
        for which in ("best", "final", "last"):
            none = failed | diverged if which == "final" else failed
            reached = np.clip(accuracy + ahead + 0.01 * (which == "best"), 0.01, 0.999)
            columns[f"{which}_{split}_accuracy"] = pa.array(reached, mask=none)
            columns[f"{which}_{split}_loss"] = pa.array(-np.log(reached), mask=none)
    for name, column in columns.items():
        table = table.set_column(TRIALS.get_field_index(name), TRIALS.field(name), pa.array(column))
    return table


def curves_of(trials: pa.Table, epochs: int, measurements: list[tuple]) -> Iterator[pa.Table]:
    """Their learning curves, `epochs` long where they did not diverge before, in row groups."""
    recorded = np.full(len(trials), epochs)
    stopped = pc.fill_null(trials["diverged_step"], 3200).to_numpy() // 100
    recorded = np.minimum(recorded, stopped) * ~np.equal(trials["status"].to_numpy(), "failed")
    trial = np.repeat(np.arange(len(trials)), recorded)
    epoch = np.arange(len(trial)) - np.repeat(np.cumsum(recorded) - recorded, recorded) + 1
    trial, epoch = np.repeat(trial, len(measurements)), np.repeat(epoch, len(measurements))
    which = np.tile(np.arange(len(measurements)), len(trial) // len(measurements))
    last = pc.fill_null(trials["last_eval_accuracy"], 0.5).to_numpy()
    accuracy = last[trial] * (1 - np.exp(-epoch / 6))
    split, length, case, count = (np.array(column) for column in zip(*measurements))
    columns = {
        "id": trials["id"].combine_chunks().take(pa.array(trial)),
        "attempt": np.ones(len(trial), np.int32),
        "epoch": epoch.astype(np.int32),
        "split": pa.array(split).take(pa.array(which)),
        "length": length[which].astype(np.int32),
        "case": pa.array(case).take(pa.array(which)),
        "loss": -np.log(accuracy),
        "correct": (accuracy * count[which]).astype(np.int64),
        "count": count[which],
    }
    table = pa.table(columns, schema=CURVES)
    for start in range(0, max(len(table), 1), ROW_GROUP):
        yield table.slice(start, ROW_GROUP)


def others(trials: pa.Table, count: int) -> pa.Table:
    """`count` rows like these of other trials: of other seeds, and with ids that only look like ids."""
    random = np.random.default_rng(1)
    table = trials.take(pa.array(random.integers(0, len(trials), count)))
    digits = random.bytes(16 * count).hex()
    ids = pa.array([digits[start : start + 32] for start in range(0, len(digits), 32)])
    table = table.set_column(0, TRIALS.field("id"), ids)
    return table.set_column(TRIALS.get_field_index("seed"), TRIALS.field("seed"), pa.array(np.arange(count) + 1000))


def make_stores(folder: Path, study: Path) -> None:
    """Makes those of the stores that are not there yet."""
    trials = trials_of_study(Study.load(study))
    for name, shards in STORES.items():
        if (folder / name).exists():
            continue
        rows, epochs, measurements = trials, 32, MEASUREMENTS
        if name == "million":
            rows, epochs, measurements = (
                pa.concat_tables([trials, others(trials, MILLION - len(trials))]),
                1,
                MEASUREMENTS[:2],
            )
        unfinished = Store(folder / f"{name}.unfinished")
        shutil.rmtree(unfinished.path, ignore_errors=True)
        for shard in range(shards):
            part = rows.take(pa.array(np.arange(shard, len(rows), shards)))  # every shard has some of the study
            stem = new_stem()
            unfinished.save("curves", stem, curves_of(part, epochs, measurements))
            unfinished.save("trials", stem, [part])
        Path(unfinished.path).rename(folder / name)


def cost_of(command: str, study: Path, store: Path) -> Cost:
    """What a command takes, in a process of its own."""
    out = store.with_name(f"report-{store.name}")
    shutil.rmtree(out, ignore_errors=True)
    arguments = [command, str(study), "--store", str(store), *(["--out", str(out)] if command == "report" else [])]
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "sweep", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"sweep {' '.join(arguments)} ended with {process.returncode}")
    pages = [page.stat().st_size / 1e6 for page in out.glob("*.html")]
    return Cost(seconds, usage.ru_maxrss / 1024, max(pages, default=None))


def show(store: str, command: str, cost: Cost) -> bool:
    """Prints a line; whether the command kept to what is allowed."""
    exceeded = cost.seconds > MOST_SECONDS[command] or cost.memory > MOST_MEMORY or (cost.html or 0) > MOST_HTML
    html = "" if cost.html is None else f"   {cost.html:5.1f} MB of {MOST_HTML:g}"
    took = f"{cost.seconds:6.2f} s of {MOST_SECONDS[command]:>2g}   {cost.memory:6,.0f} MiB of {MOST_MEMORY:,}"
    print(f"{store:10} {command:7} {took}{html}{'   EXCEEDED' if exceeded else ''}", flush=True)
    return not exceeded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the stores are kept; by default nowhere")
    parser.add_argument("--only", choices=MOST_SECONDS, action="append", help="this command (may be repeated)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        study = folder / "widths.toml"
        if not study.exists() or study.read_text() != STUDY:
            for name in STORES:  # they are another study's
                shutil.rmtree(folder / name, ignore_errors=True)
            study.write_text(STUDY)
        # In another process: Linux counts the memory that a process has when it starts a command as that command's.
        making = multiprocessing.get_context("spawn").Process(target=make_stores, args=(folder, study))
        making.start()
        making.join()
        if making.exitcode:
            sys.exit("the stores could not be made")
        kept = [
            show(name, command, min((cost_of(command, study, folder / name) for _ in range(TRIES[command])),
                                    key=lambda cost: cost.seconds))
            for name in STORES
            for command in options.only or MOST_SECONDS
        ]  # fmt: skip
    sys.exit(not all(kept))


if __name__ == "__main__":
    main()
