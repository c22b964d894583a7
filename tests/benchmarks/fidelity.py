"""Ours beside the paper's, at full length: pattern finding at widths 16 and 32, case distinction at 16 and 32.

    python tests/benchmarks/fidelity.py [--published FILE] [--store DIR] [--seeds N]

Trains what is missing (the better part of an hour of two cores the first time, nothing the second), prints every cell
beside the published five runs, and ends with 1 unless at least eight ninths of the means lie within the published
range, widened by three of its standard deviations or by 0.02, whichever is more.
"""

import argparse
import math
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from sweep import Store, Study

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT.parent / "shared" / "reference" / "published_trials.parquet"
SHARE = 8 / 9
METRIC = "best_eval_accuracy"

Cells = dict[tuple[str, int, float], list[float]]
"""Accuracies by model, width and learning rate."""


@dataclass(frozen=True)
class Board:
    """Cells of one study.

    Attributes:
        study: its name.
        task: as the published results name it.
        widths, rates: the cells.
        halves: models that train in two processes side by side, of about equal cost.
    """

    study: str
    task: str
    widths: tuple[int, ...]
    rates: tuple[float, ...]
    halves: tuple[tuple[str, ...], ...]

    def narrowed(self, seeds: int, models: tuple[str, ...]) -> list[str]:
        """What narrows the study to the cells of some models."""
        listed = lambda values: ",".join(map(str, values))  # noqa: E731
        return [
            f"width={listed(self.widths)}",
            f"learning_rate={listed(self.rates)}",
            f"seed={{count={seeds}}}",
            f"model={listed(models)}",
        ]

    def train(self, store: Path, seeds: int) -> None:
        """Runs what is missing, in two processes that share the store."""
        runs = []
        for models in self.halves:
            flags = [flag for text in self.narrowed(seeds, models) for flag in ("--set", text)]
            command = [sys.executable, "-m", "sweep", "run", self.study, "--store", str(store), "--threads", "1"]
            runs.append(subprocess.Popen([*command, "--executor", "inline", *flags], cwd=ROOT))
        if any([run.wait() for run in runs]):
            sys.exit("training failed")

    def ours(self, store: Path, seeds: int) -> Cells:
        """Our accuracies."""
        rows = {row["id"]: row for row in Store(store).trials(["id", "status", METRIC]).to_pylist()}
        found: Cells = {}
        for models in self.halves:
            for point, trial in Study.load(self.study, self.narrowed(seeds, models)).points():
                row = rows[trial.id]
                accuracy = row[METRIC] if row["status"] == "ok" else 0.0
                found.setdefault((point["model"], trial.width, trial.learning_rate), []).append(accuracy)
        return found

    def published(self, file: Path) -> Cells:
        """The paper's."""
        table = pq.read_table(file)
        table = table.filter(pc.and_(pc.equal(table["task"], self.task), pc.equal(table["axis"], "width")))
        found: Cells = {}
        for row in table.to_pylist():
            rate = min(self.rates, key=lambda ours: abs(ours - row["learning_rate"]))
            if row["axis_value"] in self.widths and abs(rate / row["learning_rate"] - 1) < 1e-6:
                found.setdefault((row["model"], int(row["axis_value"]), rate), []).append(row[METRIC])
        return found


BOARDS = (
    Board("paper/mode-width", "mode", (16,), (0.027, 0.00243, 0.0002187),
          (("nap", "max", "bert"), ("mte", "non", "sum"))),
    Board("paper/mode-width", "mode", (32,), (0.00243,), (("nap", "max", "bert"), ("mte", "non", "sum"))),
    Board("paper/cases-first-width", "cases_first", (16, 32), (0.00243,), (("nap", "max"), ("bert", "sum"))),
)  # fmt: skip
"""Of `cases_first`, the paper's repository has these four models."""


def compared(board: Board, ours: Cells, theirs: Cells, seeds: int) -> int:
    """Prints a board's cells. Returns how many are within."""
    print(f"{METRIC} of {board.task}: ours ({seeds} seeds) beside the published five runs")
    print(
        f"{'model':6} {'width':>5} {'rate':>10}   {'ours: mean (runs)':30} {'published: mean (min to max)':30} allowed"
    )
    within = 0
    for (model, width, rate), runs in ours.items():
        paper = theirs[model, width, rate]
        slack = max(3 * statistics.stdev(paper), 0.02)
        low, high = min(paper) - slack, max(paper) + slack
        mean = statistics.fmean(runs)
        within += low <= mean <= high
        said = f"{mean:.3f} ({' '.join(f'{run:.3f}' for run in runs)})"
        range_ = f"{statistics.fmean(paper):.3f} ({min(paper):.3f} to {max(paper):.3f})"
        verdict = "within" if low <= mean <= high else "OUTSIDE"
        print(f"{model:6} {width:5} {rate:10.4g}   {said:30} {range_:30} {low:.3f} to {high:.3f}  {verdict}")
    return within


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    parser.add_argument("--store", type=Path, default=ROOT / "store")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    if not options.published.exists():
        sys.exit(f"no published results at {options.published}: give their file with --published")
    started = time.monotonic()
    for board in BOARDS:
        board.train(options.store, options.seeds)
    within = cells = 0
    for board in BOARDS:
        ours = board.ours(options.store, options.seeds)
        within += compared(board, ours, board.published(options.published), options.seeds)
        cells += len(ours)
    needed = math.ceil(SHARE * cells)
    print(f"{within} of {cells} cells within; {needed} are needed; {time.monotonic() - started:.0f} s")
    sys.exit(0 if within >= needed else 1)


if __name__ == "__main__":
    main()
