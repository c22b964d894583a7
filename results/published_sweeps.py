"""One result file of the NAP paper's code: what it swept, and what the models that it trained reached.

Layout, from that code (OliverRichter/normalized-attention, train.py): MODEL_params.pickle holds `[variations, params]`,
where the two variations are the axis and the learning rate, and MODEL.pickle, rewritten after every run, holds
`(results, finished runs, order)` with `results[epoch][learning rate][axis value][metric][run]`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from results.pickles import read_plain

TASKS = {
    ("cases",): "cases",
    ("cases", "first_token_output"): "cases_first",
    ("mode",): "mode",
    ("lg",): "local_global",
}
"""Our tasks by the folders in which their sweeps are."""

AXES = {
    "model_dimension": "width",
    "layers": "depth",
    "heads": "heads",
    "max_sequence_length": "length",
    "batch_size": "batch_size",
    "vocabulary_size": "vocabulary",
    "case_bias": "case_bias",
    "initial_std_factor": "init_scale",
    "dropout": "dropout",
    "L2_regularization": "weight_decay",
}
"""Our axes by their names there."""

KERAS_L2 = 2
"""Our weight_decay of a Keras l2 coefficient c: its penalty c·p² has the gradient 2c·p."""

RATES = {"name": "learning_rate", "min": 1, "range": 10, "base": 0.3}
FOLDERS: dict[str, dict[str, Any]] = {
    "var_dim": {"name": "model_dimension", "min": 3, "range": 8, "base": 2},
    "var_init": {"name": "initial_std_factor", "min": -3, "range": 8, "base": 4},
    "var_bias": {"name": "case_bias", "min": -3, "range": 8, "base": False},
    "var_layers": {"name": "layers", "min": 0, "range": 7, "base": 2},
    "var_heads": {"name": "heads", "min": 0, "range": 8, "base": 2},
    "var_seq": {"name": "max_sequence_length", "min": 2, "range": 8, "base": 2},
    "var_batch": {"name": "batch_size", "min": 0, "range": 8, "base": 2},
    "var_vocab": {"name": "vocabulary_size", "min": 1, "range": 8, "base": 2},
    "var_dropout_1_4_0.5": {"name": "dropout", "min": 1, "range": 4, "base": 0.5},
    "var_l2_regularization_1_4_0.1": {"name": "L2_regularization", "min": 1, "range": 4, "base": 0.1},
}
"""What is swept in a folder, where no MODEL_params.pickle says it."""

TRAIN = 0
"""Place of the training accuracy among the metrics; evaluation accuracy and the losses of both follow."""

METRICS = {"cases": 32, "cases_first": 32, "mode": 4, "local_global": 12}
"""How many metrics a task has: accuracies and losses, then correct answers and sequences by case."""

CASES = {"argmin": 4, "first": 6, "argmax": 9}
"""Places of the correct answers by case, at the training length."""

N_CASES = 7
"""From a case's correct answers to its sequences; twice as far is the evaluation length."""

MOST_VALUES, MOST_RUNS, MOST_CELLS = 1_000, 100, 1_000_000
"""Values of an axis, runs of a cell, and cells of all epochs. A file that claims more, by repeating itself, is
refused."""


class OtherShape(ValueError):
    """A file that is no result file of that code; the message is part of a line."""


@dataclass(frozen=True)
class Sweep:
    """The grid of a result file, its values in the file's order."""

    axis: str
    axis_values: tuple[float, ...]
    learning_rates: tuple[float, ...]


def sweep_of(path: Path) -> Sweep | None:
    """What the result file at `path` swept, from the parameters beside it or its folder; None: no axis of ours.

    Raises:
        NotPlain, OtherShape: as `read_plain`; parameters of another shape.
    """
    parameters = path.with_name(f"{path.stem}_params.pickle")
    if parameters.is_file():
        described = read_plain(parameters.read_bytes())
        try:
            (x, y), _ = described
        except (TypeError, ValueError) as error:
            raise OtherShape(f"{parameters.name} does not hold [variations, parameters]") from error
    elif path.parent.name in FOLDERS:
        x, y = FOLDERS[path.parent.name], RATES
    else:
        return None
    (axis, axis_values), (rate, learning_rates) = _values(x), _values(y)
    if rate != "learning_rate":
        raise OtherShape("its second axis is not the learning rate")
    return Sweep(AXES[axis], axis_values, learning_rates) if axis in AXES else None


def _values(variation: Any) -> tuple[str, tuple[float, ...]]:
    """Name and values of an axis: powers of its base, or whole numbers where it has none. Decimal, so that 0.3^5 is
    0.00243."""
    try:
        name, low, count, base = (variation[key] for key in ("name", "min", "range", "base"))
    except (TypeError, KeyError) as error:
        raise OtherShape("an axis of its sweep is not described by name, min, range and base") from error
    sound = isinstance(name, str) and isinstance(low, int) and isinstance(count, int) and 1 <= count <= MOST_VALUES
    if not sound or abs(low) > MOST_VALUES or (base and not (_is_number(base) and 1e-9 < base < 1e9)):
        raise OtherShape("an axis of its sweep has no sensible values")
    factor = KERAS_L2 if name == "L2_regularization" else 1
    exponents = range(low, low + count)
    values = [Decimal(str(base)) ** exponent if base else Decimal(exponent) for exponent in exponents]
    return name, tuple(float(factor * value) for value in values)


def trained_models(content: Any, task: str, sweep: Sweep) -> tuple[list[dict[str, Any]], int]:
    """The finished runs of a result file's content, a dict each, and how many runs its cells have room for.

    A run is finished when it has accuracies and losses in every epoch. Lists that are too short, and zeros throughout
    (no training has a loss of zero from its first epoch on), are runs that never were.

    Raises:
        OtherShape: it is not laid out as this module says, for this task and sweep.
    """
    if not isinstance(content, tuple | list) or len(content) != 3:
        raise OtherShape("it does not hold (results, finished runs, order)")
    epochs = content[0]
    if not isinstance(epochs, list) or not epochs:
        raise OtherShape("its results are not a list of epochs")
    if len(epochs) * len(sweep.axis_values) * len(sweep.learning_rates) > MOST_CELLS:
        raise OtherShape(f"it has more than {MOST_CELLS:,} cells in all its epochs")
    rows, most_runs = [], 0
    for i, axis_value in enumerate(sweep.axis_values):
        for j, learning_rate in enumerate(sweep.learning_rates):
            cell = [_cell(epoch, i, j, task, sweep) for epoch in epochs]
            most_runs = max(most_runs, len(cell[0][TRAIN]))
            place = {"axis": sweep.axis, "axis_value": axis_value, "learning_rate": learning_rate}
            rows += [place | row for row in _runs(cell, task)]
    return rows, most_runs * len(sweep.axis_values) * len(sweep.learning_rates)


def _cell(epoch: Any, i: int, j: int, task: str, sweep: Sweep) -> list[list[float]]:
    """The metrics of a cell in an epoch, each a list of its runs."""
    rates = _sized(epoch, len(sweep.learning_rates), "learning rates")
    metrics = _sized(_sized(rates[j], len(sweep.axis_values), f"values of {sweep.axis}")[i], METRICS[task], "metrics")
    if not all(isinstance(runs, list) and len(runs) <= MOST_RUNS for runs in metrics):
        raise OtherShape("its metrics are not lists of runs")
    return metrics


def _sized(value: Any, size: int, of: str) -> list[Any]:
    found = len(value) if isinstance(value, list) else "no"
    if found != size:
        raise OtherShape(f"it has {found} {of} where its sweep has {size}")
    return value


def _runs(epochs: list[list[list[float]]], task: str) -> Iterator[dict[str, Any]]:
    """The finished runs of a cell, from its metrics by epoch."""
    for run in range(min(len(runs) for metrics in epochs for runs in metrics[:4])):
        train, evaluation, *losses = ([metrics[metric][run] for metrics in epochs] for metric in range(4))
        if not any(map(any, (train, evaluation, *losses))):
            continue
        if not all(map(_is_accuracy, (*train, *evaluation))):
            raise OtherShape("it has an accuracy that is not between 0 and 1")
        best = max(evaluation)
        yield {
            "run": run,
            "best_eval_accuracy": best,
            "final_eval_accuracy": evaluation[-1],
            "best_train_accuracy": max(train),
            "final_train_accuracy": train[-1],
            "best_eval_epoch": evaluation.index(best) + 1,
            **(_case_accuracies(epochs[-1], run) if METRICS[task] == METRICS["cases"] else {}),
        }


def _is_accuracy(value: Any) -> bool:
    return isinstance(value, int | float) and -1e-6 <= value <= 1 + 1e-6  # a mean in float32 may round beyond


def _case_accuracies(metrics: list[list[float]], run: int) -> dict[str, float | None]:
    """A run's accuracies by case; None where not every run was judged so, as then nobody knows whose a number is."""
    accuracies: dict[str, float | None] = {}
    for name, place in CASES.items():
        for length, offset in (("", 0), ("eval_", 2 * N_CASES)):
            correct, count = metrics[place + offset], metrics[place + offset + N_CASES]
            judged = len(correct) == len(count) == len(metrics[TRAIN]) and _is_positive(count[run])
            if judged and not (_is_number(correct[run]) and 0 <= correct[run] <= count[run]):
                raise OtherShape("it has more right answers of a case than sequences, or a number of them that is none")
            accuracies[f"final_{length}case_{name}"] = correct[run] / count[run] if judged else None
    return accuracies


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
