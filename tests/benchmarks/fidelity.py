"""Ours beside the paper's: pattern finding at width 16, three learning rates, six models, full length.

    python tests/benchmarks/fidelity.py [--published FILE] [--store DIR] [--seeds N]

Trains what is missing (about half an hour of two cores the first time, nothing the second), prints every cell
beside the published five runs, and ends with 1 unless at least 16 of the 18 means lie within the published range,
widened by three of its standard deviations or by 0.02, whichever is more.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from sweep import Store, Study

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT.parent / "shared" / "reference" / "published_trials.parquet"
RATES = (0.027, 0.00243, 0.0002187)
WIDTH = 16
HALVES = (("nap", "max", "bert"), ("mte", "non", "sum"))
"""Models that train in two processes side by side, of about equal cost."""

NEEDED = 16
METRIC = "best_eval_accuracy"


def study(seeds: int, models: tuple[str, ...]) -> tuple[str, list[str]]:
    """The study and what narrows it."""
    rates = ",".join(map(str, RATES))
    sets = [f"width={WIDTH}", f"learning_rate={rates}", f"seed={{count={seeds}}}", f"model={','.join(models)}"]
    return "paper/mode-width", sets


def train(store: Path, seeds: int) -> None:
    """Runs what is missing, in two processes that share the store."""
    runs = []
    for models in HALVES:
        name, sets = study(seeds, models)
        flags = [flag for text in sets for flag in ("--set", text)]
        command = [sys.executable, "-m", "sweep", "run", name, "--store", str(store), "--threads", "1", *flags]
        runs.append(subprocess.Popen(command, cwd=ROOT))
    if any([run.wait() for run in runs]):
        sys.exit("training failed")


def cells(store: Path, seeds: int) -> dict[tuple[str, float], list[float]]:
    """Our accuracies by model and learning rate."""
    rows = {row["id"]: row for row in Store(store).trials(["id", "status", METRIC]).to_pylist()}
    found: dict[tuple[str, float], list[float]] = {}
    for models in HALVES:
        name, sets = study(seeds, models)
        for point, trial in Study.load(name, sets).points():
            row = rows[trial.id]
            accuracy = row[METRIC] if row["status"] == "ok" else 0.0
            found.setdefault((point["model"], trial.learning_rate), []).append(accuracy)
    return found


def published(file: Path) -> dict[tuple[str, float], list[float]]:
    """The paper's accuracies by model and learning rate."""
    table = pq.read_table(file)
    wanted = pc.and_(pc.equal(table["task"], "mode"), pc.equal(table["axis"], "width"))
    table = table.filter(pc.and_(wanted, pc.equal(table["axis_value"], WIDTH)))
    found: dict[tuple[str, float], list[float]] = {}
    for row in table.to_pylist():
        rate = min(RATES, key=lambda ours: abs(ours - row["learning_rate"]))
        if abs(rate / row["learning_rate"] - 1) < 1e-6:
            found.setdefault((row["model"], rate), []).append(row[METRIC])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    parser.add_argument("--store", type=Path, default=ROOT / "store")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if not options.published.exists():
        sys.exit(f"no published results at {options.published}: give their file with --published")
    started = time.monotonic()
    train(options.store, options.seeds)
    ours, theirs = cells(options.store, options.seeds), published(options.published)
    print(f"{METRIC} of mode at width {WIDTH}: ours ({options.seeds} seeds) beside the published five runs")
    print(f"{'model':6} {'rate':>10}   {'ours: mean (runs)':36} {'published: mean (min to max)':30} allowed")
    within = 0
    for (model, rate), runs in ours.items():
        paper = theirs[model, rate]
        slack = max(3 * statistics.stdev(paper), 0.02)
        low, high = min(paper) - slack, max(paper) + slack
        mean = statistics.fmean(runs)
        within += low <= mean <= high
        said = f"{mean:.3f} ({' '.join(f'{run:.3f}' for run in runs)})"
        range_ = f"{statistics.fmean(paper):.3f} ({min(paper):.3f} to {max(paper):.3f})"
        verdict = "within" if low <= mean <= high else "OUTSIDE"
        print(f"{model:6} {rate:10.4g}   {said:36} {range_:30} {low:.3f} to {high:.3f}  {verdict}")
    print(f"{within} of {len(ours)} cells within; {NEEDED} are needed; {time.monotonic() - started:.0f} s")
    sys.exit(0 if within >= NEEDED else 1)


if __name__ == "__main__":
    main()
