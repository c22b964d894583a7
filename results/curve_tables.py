"""Tables over epochs and lengths: how models learned, and how they do at other lengths than they were trained at."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from results.cells import Cell, Cells, Point, Table, cell_of_values, in_order
from results.curves import Curves, last_values
from results.metrics import metric_of

WHICH = ("best", "median", "worst")


def chosen_cells(cells: Cells) -> dict[tuple[str, str], Cell]:
    """The best, the median and the worst cell of each model by score, without repeats, by (model, which)."""
    chosen = {}
    for model in cells.models:
        ranked = cells.ranked(model)
        places = {"best": 0, "median": len(ranked) // 2, "worst": len(ranked) - 1}
        taken: set[int] = set()
        for which in WHICH:
            if ranked and places[which] not in taken:
                taken.add(places[which])
                chosen[model, which] = ranked[places[which]]
    return chosen


def learning_curves(cells: Cells, curves: Curves) -> Table:
    """The best, the median and the worst cell of each model, epoch by epoch, on the sequences that the metric is
    measured on.

    Columns: model, which, facet, x, y, epoch, n (runs with that epoch), mean, lowest and highest
    over them. Accuracies, or losses where the metric is one.
    """
    metric, table = cells.metric, []
    series = curves.series(metric.split, metric.at, metric.case, metric.kind)
    for (model, which), cell in chosen_cells(cells).items():
        values = series.of(cell.ids)
        for epoch in range(series.epochs):
            found = values[:, epoch][np.isfinite(values[:, epoch])]
            if len(found):
                table.append(
                    {"model": model, "which": which, "facet": cell.facet, "x": cell.x, "y": cell.y,
                     "epoch": epoch + 1, "n": len(found), "mean": float(found.mean()),
                     "lowest": float(found.min()), "highest": float(found.max())}
                )  # fmt: skip
    return table


def evolution(cells: Cells, curves: Curves) -> np.ndarray:
    """The mean over ok runs of every cell at every epoch: [cells, E], in the order of `cells.cells`, NaN where none."""
    metric = cells.metric
    series = curves.series(metric.split, metric.at, metric.case, metric.kind)
    means = np.full((len(cells.cells), series.epochs), np.nan)
    for number, cell in enumerate(cells.cells):
        values = series.of(cell.ids)
        found = np.isfinite(values)
        counts = found.sum(axis=0)
        sums = np.where(found, values, 0.0).sum(axis=0)
        means[number, counts > 0] = sums[counts > 0] / counts[counts > 0]
    return means


def lengths(points: Sequence[Point], rows: Mapping[str, Mapping[str, Any]], curves: Curves) -> Table:
    """How models do at lengths: one row a model, training length and evaluation length, where there are several of
    either, and one task.

    Columns: model, length, eval_length, n (ok runs, of all settings), mean of their final accuracy, best (the mean of
    the setting that does best there; a setting is a cell of everything but the seed), and of that setting the number of
    runs by outcome: best_planned, best_ok, best_diverged, best_failed, best_missing. Where no setting has a run that is
    ok, these are sums over all of them, and mean and best are None.
    """
    table: Table = []
    trained = in_order(rows[point["id"]]["length"] for point in points if point["id"] in rows)
    judged = curves.eval_lengths()
    if len(trained) * len(judged) < 2 or len({row.get("task") for row in rows.values()}) > 1:
        return []
    series = {length: curves.series("eval", length) for length in judged}
    groups: dict[tuple, dict[tuple, list[str]]] = {}
    for point in points:
        row = rows.get(point["id"])
        length = row["length"] if row is not None else point.get("length", trained[0] if len(trained) == 1 else None)
        if length is not None:
            setting = tuple((name, value) for name, value in point.items() if name not in ("id", "seed"))
            groups.setdefault((point["model"], length), {}).setdefault(setting, []).append(point["id"])
    for (model, length), settings in groups.items():
        counts = {setting: _outcomes(ids, rows) for setting, ids in settings.items()}
        ok = {
            setting: [id_ for id_ in ids if id_ in rows and rows[id_]["status"] == "ok"]
            for setting, ids in settings.items()
        }
        everywhere: Counter[str] = Counter()
        for count in counts.values():
            everywhere.update(count)
        asked = False
        for eval_length in judged:
            finals = {setting: _finals(series[eval_length].of(ids)) for setting, ids in ok.items()}
            everything = np.concatenate([*finals.values()])
            means = {setting: float(values.mean()) for setting, values in finals.items() if len(values)}
            best = max(means, key=lambda setting: means[setting], default=None)
            asked = asked or bool(means)
            table.append(
                {"model": model, "length": length, "eval_length": eval_length, "n": len(everything),
                 "mean": float(everything.mean()) if means else None, "best": None if best is None else means[best]}
                | {f"best_{name}": (everywhere if best is None else counts[best])[name] for name in OUTCOMES}
            )  # fmt: skip
        if asked:  # a length that no run of these was asked at is no hole
            table = [row for row in table if (row["model"], row["length"]) != (model, length) or row["n"]]
    return table


OUTCOMES = ("planned", "ok", "diverged", "failed", "missing")


def _outcomes(ids: Sequence[str], rows: Mapping[str, Mapping[str, Any]]) -> Counter[str]:
    """How many trials came out how."""
    found = Counter(rows[id_]["status"] if id_ in rows else "missing" for id_ in ids)
    found["failed"] += found.pop("oom", 0)
    found["planned"] = len(ids)
    return found


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
    values = () if row["best"] is None else (row["best"],)
    cell = cell_of_values(row["model"], row["length"], row["eval_length"], values)
    return replace(cell, **{f"n_{name}": row[f"best_{name}"] for name in OUTCOMES})


def _finals(values: np.ndarray) -> np.ndarray:
    """The finite values after the last epoch of each."""
    last = last_values(values)
    return last[np.isfinite(last)]
