"""What a cell can show: every metric by name, what it means, and where its values come from.

A metric is a column of a trial's row, a case's accuracy out of its learning curve, or, for the paper's heatmap, a
figure of the runs of a cell together.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.schema import OUTCOME

COLUMNS = tuple(name for name, _ in OUTCOME if name.endswith(("_accuracy", "_loss")))
PAPER = {"paper_heatmap": "eval", "paper_heatmap_train": "train"}
CASE = "case_"

WHICH = {
    "final": "after the last planned epoch, so that nothing is chosen by what is reported",
    "best": "the largest over the epochs, for each run on its own, then averaged over runs: what the NAP paper's "
    "robustness curves show. It flatters: it is the maximum of noisy estimates",
    "last": "after the last recorded epoch",
}
SPLIT = {
    "train": "on the training sequences, as the running mean over an epoch",
    "eval": "on fresh sequences that no model was trained on",
}


@dataclass(frozen=True)
class Metric:
    """What a cell shows.

    Attributes:
        name: as `--metric` takes it.
        label: as people say it.
        meaning: a sentence for the report.
        split: "train" or "eval": the sequences that it is measured on.
        at: "length" or "eval_length": the column that says how long they are.
        case: "all", or one of the task's.
        kind: "accuracy" or "loss".
        of_curves: whether it is read from learning curves in place of rows.
        of_cells: whether it is a figure of all runs of a cell: the best epoch of their mean.
    """

    name: str
    label: str
    meaning: str
    split: str
    at: str
    case: str = "all"
    kind: str = "accuracy"
    of_curves: bool = False
    of_cells: bool = False

    @property
    def sign(self) -> float:
        """1 where more is better, else −1."""
        return 1.0 if self.kind == "accuracy" else -1.0

    def better(self, score: float | None) -> float:
        """A key by which the best score is the largest; none is worst."""
        return self.sign * score if score is not None else float("-inf")


def metric_of(name: str, cases: Sequence[str] = ()) -> Metric:
    """The metric of a name.

    Args:
        cases: those of the study's task, on an equalised set.

    Raises:
        ValueError: there is none of that name here; the message lists those that there are.
    """
    known = metrics(cases)
    if name not in known:
        raise ValueError(f"no metric {name!r} here: one of {', '.join(known)}")
    return known[name]


def metrics(cases: Sequence[str] = ()) -> dict[str, Metric]:
    """Every metric of a task with these cases, by name, the default first."""
    first = "final_eval_accuracy"
    found = {name: _of_column(name) for name in [first, *(name for name in COLUMNS if name != first)]}
    for name, split in PAPER.items():
        found[name] = Metric(
            name,
            f"accuracy of the paper's heatmap{' (training)' if split == 'train' else ''}",
            f"The share of correct answers {SPLIT[split]}: the mean over the runs of a cell at each epoch, then the "
            "largest over the epochs. The NAP paper is quoted for the best cell of this",
            split,
            _length_of(split),
            of_curves=True,
            of_cells=True,
        )
    for case in cases:
        for name, at, where in (
            ("final_case_", "length", "training"),
            ("final_eval_case_", "eval_length", "evaluation"),
        ):
            found[name + case] = Metric(
                name + case,
                f"final accuracy of case {case} at {where} length",
                f"The share of correct answers to the sequences of case {case} in a set with equally many of each, at "
                f"the {where} length, after the last epoch",
                "eval",
                at,
                case,
                of_curves=True,
            )
    return found


def metric_label(name: str) -> str:
    """final_eval_accuracy as people say it: final evaluation accuracy."""
    return name.replace("_eval_", "_evaluation_").replace("_train_", "_training_").replace("_", " ")


def worst_of(metric: Metric, rows: Sequence[Mapping[str, Any]]) -> float:
    """What a diverged run counts as in scores: accuracy 0, or the largest loss of an ok run."""
    if metric.kind == "accuracy":
        return 0.0
    losses = [row.get(metric.name) for row in rows if row["status"] == "ok"]
    return max((loss for loss in losses if loss is not None and math.isfinite(loss)), default=0.0)


def _of_column(name: str) -> Metric:
    which, split, kind = name.split("_")
    what = "The share of correct answers" if kind == "accuracy" else "The mean cross-entropy of the answers, in nats,"
    how = WHICH[which] if kind == "accuracy" else WHICH[which].replace("the largest", "the smallest")
    return Metric(name, metric_label(name), f"{what} {SPLIT[split]}; {how}", split, _length_of(split), kind=kind)


def _length_of(split: str) -> str:
    return "eval_length" if split == "eval" else "length"
