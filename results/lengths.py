"""How models do at other lengths than they were trained at: a table, and cells of both lengths for heatmaps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from results.cells import Cell, Cells, Point, Table, cell_of_values, in_order
from results.curves import Curves, Series, last_values
from results.metrics import metric_of

OUTCOMES = ("planned", "ok", "diverged", "failed", "missing")

Rows = Mapping[str, Mapping[str, Any]]
Settings = Mapping[tuple, Sequence[str]]
"""Ids of the trials of each setting, which is all but the seed."""


def lengths(points: Sequence[Point], rows: Rows, curves: Curves) -> Table:
    """One row a model, training length and evaluation length, where there are several of either, and one task.

    Columns: model, length, eval_length, n (ok runs, of all settings), mean of their final accuracy, best (the mean of
    the setting that does best there), and of that setting best_values, a run each, and the number of runs by outcome:
    best_planned, best_ok, best_diverged, best_failed, best_missing. Where no run is ok, these are sums over all
    settings, and mean and best are None.
    """
    trained = in_order(rows[point["id"]]["length"] for point in points if point["id"] in rows)
    judged = curves.eval_lengths()
    if len(trained) * len(judged) < 2 or len({row.get("task") for row in rows.values()}) > 1:
        return []
    groups: dict[tuple, dict[tuple, list[str]]] = {}
    for point in points:
        row = rows.get(point["id"])
        length = row["length"] if row is not None else point.get("length", trained[0] if len(trained) == 1 else None)
        if length is not None:
            setting = tuple((name, value) for name, value in point.items() if name not in ("id", "seed"))
            groups.setdefault((point["model"], length), {}).setdefault(setting, []).append(point["id"])
    series = {length: curves.series("eval", length) for length in judged}
    table: Table = []
    for (model, length), settings in groups.items():
        found = [
            {"model": model, "length": length, "eval_length": at, **_best(series[at], settings, rows)} for at in judged
        ]
        asked = [row for row in found if row["n"]]
        table += asked or found  # a length that none of these was asked at is no hole
    return table


def _best(series: Series, settings: Settings, rows: Rows) -> dict[str, Any]:
    """A row of `lengths`, from what was measured at one evaluation length."""
    counts = {setting: _outcomes(ids, rows) for setting, ids in settings.items()}
    finals = {
        setting: _finals(series.of([id_ for id_ in ids if id_ in rows and rows[id_]["status"] == "ok"]))
        for setting, ids in settings.items()
    }
    means = {setting: float(values.mean()) for setting, values in finals.items() if len(values)}
    if means:
        best, everything = max(means, key=lambda setting: means[setting]), np.concatenate([*finals.values()])
        values, count = tuple(map(float, finals[best])), counts[best]
        measured = {"n": len(everything), "mean": float(everything.mean()), "best": means[best], "best_values": values}
    else:
        count = sum(counts.values(), Counter())
        measured = {"n": 0, "mean": None, "best": None, "best_values": ()}
    return {**measured, **{f"best_{name}": count[name] for name in OUTCOMES}}


def _outcomes(ids: Sequence[str], rows: Rows) -> Counter[str]:
    """How many trials came out how."""
    found = Counter(rows[id_]["status"] if id_ in rows else "missing" for id_ in ids)
    found["failed"] += found.pop("oom", 0)
    found["planned"] = len(ids)
    return found


def _finals(values: np.ndarray) -> np.ndarray:
    """The finite values after the last epoch of each."""
    last = last_values(values)
    return last[np.isfinite(last)]


def length_cells(table: Table, models: Sequence[str]) -> Cells | None:
    """The best accuracies of `lengths` as cells of training and evaluation length; None where there are not several of
    both, or no model was evaluated at several."""
    trained, judged = (in_order(row[name] for row in table) for name in ("length", "eval_length"))
    places = [(row["model"], row["length"]) for row in table if row["best"] is not None]
    if len(trained) < 2 or len(judged) < 2 or len(set(places)) == len(places):
        return None
    shown = {row["model"] for row in table}
    return Cells(
        x="training_length", y="evaluation_length", facet=None, metric=metric_of("final_eval_accuracy"),
        models=tuple(model for model in models if model in shown), x_values=trained, y_values=judged,
        facet_values=(None,), averaged_axes=(), cells=tuple(map(_length_cell, table)),
    )  # fmt: skip


def _length_cell(row: Mapping[str, Any]) -> Cell:
    cell = cell_of_values(row["model"], row["length"], row["eval_length"], row["best_values"])
    return replace(cell, **{f"n_{name}": row[f"best_{name}"] for name in OUTCOMES})
