"""How robust is each model? Tables of cells: pure functions, so that every number in a figure or a report can be
checked without drawing.

A *score* is a cell's mean over its results, where a diverged run counts as the worst. Intervals are of 95%, by
resampling seeds within cells; there are none where cells have one seed.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np

from results.cells import Cell, Cells, Table
from results.statistics import (
    expected_best,
    holm,
    interval,
    longest_run_decades,
    resampled_means,
    sign_flip_p_values,
)

CLOSE = 0.05
"""How far below the best cell of any model a cell may be and still count as close to it: 5 points of accuracy."""

MOSTLY = 0.9
"""Share of cells that need two seeds for an interval over all of them."""

DRAWS = (1, 2, 4, 8, 16)
"""Numbers of random cells of which the expected best is shown."""


def robustness_curve(cells: Cells) -> Table:
    """The scores of each model's cells from the best to the worst: how much of its grid does it do well on?

    With `best_eval_accuracy` it is the NAP paper's robustness curve. Only cells with a result. Columns: model, rank
    (1-based), share (rank / cells with a result, in 0…1), score, low and high (of the cell at this
    rank), facet, x, y, n_cells (of this model, with a result) and n_planned_cells.
    """
    table = []
    for model in cells.models:
        found, planned = cells.ranked(model), len(cells.of(model))
        bands = _bands(found)
        for rank, cell in enumerate(found, 1):
            low, high = bands[rank - 1] if bands else (None, None)
            table.append(
                {"model": model, "rank": rank, "share": rank / len(found), "score": cell.score, "low": low,
                 "high": high, "facet": cell.facet,
                 "x": cell.x, "y": cell.y, "n_cells": len(found), "n_planned_cells": planned}
            )  # fmt: skip
    return table


def model_summary(cells: Cells, chance: float | None = None) -> Table:
    """One row a model.

    Columns:
        best_facet, best_x, best_y, best_score, best_mean, best_sd, best_n (ok runs): the cell of the best score (the
            first of equals), so that a cell that mostly diverges does not win by its one lucky run. Picked on the
            runs that it is reported with, it flatters a little.
        mean_score, mean_low, mean_high: the mean over cells with a result, and its interval.
        close_share, n_close: cells whose score is within CLOSE of the best of any model; of accuracies alone.
        threshold, decades: the width of the longest unbroken run of learning rates whose score is above the threshold
            (see `threshold`), in decades, as the mean over the x values; see `rate_windows`.
        spread: the root mean square over cells of the standard deviation between seeds; see `spread_over_seeds`.
        diverged_share: of the runs with a result.
        n_cells (with a result), n_planned_cells; n_ok, n_diverged, n_failed, n_missing, n_unmeasured (runs).
    None where a model has no result, or too little of it.
    """
    metric, bests = cells.metric, best_cells(cells)
    best_of_all = max((metric.better(cell.score) for cell in bests.values()), default=0.0)
    windows = rate_windows(cells, chance)
    table = []
    for model in cells.models:
        planned, found, best = cells.of(model), cells.scored(model), bests.get(model)
        close = [cell for cell in found if metric.better(cell.score) >= best_of_all - CLOSE - 1e-9]
        low, high = _mean_interval(found)
        spreads = [deviation**2 for cell in found if (deviation := spread_over_seeds(cell)) is not None]
        widths = [row["decades"] for row in windows if row["model"] == model and row["decades"] is not None]
        n_results = sum(len(cell.results) for cell in planned)
        table.append(
            {
                "model": model,
                "best_facet": best and best.facet,
                "best_x": best and best.x,
                "best_y": best and best.y,
                "best_score": best and best.score,
                "best_mean": best and best.mean,
                "best_sd": best and best.sd,
                "best_n": best and best.n_ok,
                "mean_score": statistics.fmean(map(_score, found)) if found else None,
                "mean_low": low,
                "mean_high": high,
                "close_share": len(close) / len(found) if found and metric.kind == "accuracy" else None,
                "n_close": len(close),
                "decades": statistics.fmean(widths) if widths else None,
                "spread": math.sqrt(statistics.fmean(spreads)) if spreads else None,
                "diverged_share": sum(cell.n_diverged for cell in planned) / n_results if n_results else None,
                "n_cells": len(found),
                "n_planned_cells": len(planned),
                **{
                    name: sum(getattr(cell, name) for cell in planned)
                    for name in ("n_ok", "n_diverged", "n_failed", "n_missing", "n_unmeasured")
                },
            }
        )
    return table


def threshold(cells: Cells, chance: float | None = None) -> float | None:
    """Above which score a cell has learned: half-way from guessing to the best cell of any model. None without a
    result, for losses, and where guessing is not known or differs over the study."""
    best = max((_score(cell) for cell in best_cells(cells).values()), default=None)
    if best is None or chance is None or cells.metric.kind != "accuracy":
        return None
    return (best + chance) / 2


def rate_windows(cells: Cells, chance: float | None = None) -> Table:
    """How wide is the range of learning rates that work? One row a model, facet and x value.

    Columns: model, facet, x, threshold, decades (the longest unbroken run of the learning rates that are planned there
    with a score above the threshold, see results.statistics.longest_run_decades; None while one of them has no
    result), n_rates (with a result) and n_planned. Empty where y is no learning rate, and without a threshold.
    """
    limit, table = threshold(cells, chance), []
    if cells.y != "learning_rate" or limit is None or len(cells.y_values) < 2:
        return []
    for model in cells.models:
        for facet, x in product(cells.facet_values, cells.x_values):
            here = [cell for cell in cells.of(model) if (cell.facet, cell.x) == (facet, x)]
            here = sorted(here, key=lambda cell: cell.y)
            found = [cell for cell in here if cell.score is not None]
            if found:
                good = [cell.score is not None and cell.score > limit for cell in here]
                decades = longest_run_decades([cell.y for cell in here], good) if len(found) == len(here) else None
                row = {"model": model, "facet": facet, "x": x, "threshold": limit, "decades": decades}
                table.append({**row, "n_rates": len(found), "n_planned": len(here)})
    return table


def expected_bests(cells: Cells) -> Table:
    """What a search by chance finds: the expected best score of k random cells; see results.statistics.expected_best.

    Columns: model, k, expected, n_cells (with a result).
    """
    sign = cells.metric.sign
    return [
        {"model": model, "k": k, "expected": sign * expected_best(scores, k), "n_cells": len(scores)}
        for model in cells.models
        for scores in [[sign * _score(cell) for cell in cells.scored(model)]]
        if scores
        for k in DRAWS
    ]


def pairwise(cells: Cells) -> Table:
    """Every two models compared on what both have run: the same cell, and the same seed, hence the same sequences.

    Columns: model, other, n (pairs of runs), n_cells, difference (mean of model − other over the pairs; a diverged run
    counts as the worst), low and high (its interval), p (sign-flip permutation test, two-sided) and p_holm (corrected
    for the number of comparisons, Holm 1979). Without common runs the numbers are None.
    """
    runs = {
        model: {
            (cell.facet, cell.x, cell.y, run.setting, run.seed): run.result
            for cell in cells.of(model)
            for run in cell.runs
        }
        for model in cells.models
    }
    keys = list(dict.fromkeys(key for found in runs.values() for key in found))
    values = {model: np.array([found.get(key, np.nan) for key in keys]) for model, found in runs.items()}
    pairs = list(combinations(cells.models, 2))
    if not keys or not pairs:
        return []
    differences = np.stack([values[one] - values[other] for one, other in pairs], axis=1)
    p_values = sign_flip_p_values(differences)
    tested = [number for number in range(len(pairs)) if np.isfinite(differences[:, number]).any()]
    corrected = dict(zip(tested, holm([float(p_values[number]) for number in tested])))
    numbers: dict[tuple, int] = {}
    places = np.array([numbers.setdefault(key[:4], len(numbers)) for key in keys])  # all but the seed
    return [
        _pair(one, other, differences[:, number], places, float(p_values[number]), corrected.get(number))
        for number, (one, other) in enumerate(pairs)
    ]


def _pair(
    one: str, other: str, differences: np.ndarray, places: np.ndarray, p_value: float, corrected: float | None
) -> dict:
    found = np.isfinite(differences)
    row = {"model": one, "other": other, "n": int(found.sum()), "n_cells": len(set(places[found].tolist()))}
    if not row["n"]:
        return row | dict.fromkeys(("difference", "low", "high", "p", "p_holm"))
    by_cell: dict[int, list[float]] = {}
    for place, difference in zip(places[found].tolist(), differences[found].tolist(), strict=True):
        by_cell.setdefault(place, []).append(difference)
    low, high = _weighted_interval(list(by_cell.values()))
    mean = float(differences[found].mean())
    return row | {"difference": mean, "low": low, "high": high, "p": p_value, "p_holm": corrected}


def best_cells(cells: Cells) -> dict[str, Cell]:
    """The cell of the best score of each model that has a result, the first of equals."""
    ranked = {model: cells.ranked(model) for model in cells.models}
    return {model: found[0] for model, found in ranked.items() if found}


def _score(cell: Cell) -> float:
    assert cell.score is not None
    return cell.score


def spread_over_seeds(cell: Cell) -> float | None:
    """The sample standard deviation of a cell's ok runs between seeds: pooled over the settings that a cell averages.
    None where no setting has two runs."""
    groups: dict[tuple, list[float]] = {}
    for run in cell.runs:
        if run.ok:
            groups.setdefault(run.setting, []).append(run.result)
    freedom = sum(len(group) - 1 for group in groups.values())
    if not freedom:
        return None
    squares = sum((value - sum(group) / len(group)) ** 2 for group in groups.values() for value in group)
    return math.sqrt(squares / freedom)


def _resampled_scores(found: Sequence[Cell]) -> np.ndarray | None:
    """Bootstrap scores of cells, [resamples, cells]: seeds are resampled within a cell and setting. None where fewer
    than `MOSTLY` of the cells have two seeds in each setting: the others would look as if they were sure."""
    groups: list[list[float]] = []
    of_cell: list[list[int]] = []
    for cell in found:
        by_setting: dict[tuple, list[float]] = {}
        for run in cell.runs:
            by_setting.setdefault(run.setting, []).append(run.result)
        of_cell.append(list(range(len(groups), len(groups) + len(by_setting))))
        groups += by_setting.values()
    repeated = [all(len(groups[number]) > 1 for number in numbers) for numbers in of_cell]
    if not found or sum(repeated) < MOSTLY * len(found):
        return None
    samples = resampled_means(groups)
    sizes = np.array([len(group) for group in groups], float)
    return np.stack([samples[:, n] @ sizes[n] / sizes[n].sum() for n in of_cell], axis=1)


def _mean_interval(found: Sequence[Cell]) -> tuple[float | None, float | None]:
    samples = _resampled_scores(found)
    return (None, None) if samples is None else interval(samples.mean(axis=1))


def _weighted_interval(groups: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """The interval of the mean over all members, resampled within groups; None where few groups have two."""
    if sum(len(group) > 1 for group in groups) < MOSTLY * len(groups):
        return None, None
    sizes = np.array([len(group) for group in groups])
    return interval(resampled_means(groups) @ sizes / sizes.sum())


def _bands(found: Sequence[Cell]) -> list[tuple[float, float]] | None:
    samples = _resampled_scores(found)
    return None if samples is None else [interval(samples[:, rank]) for rank in range(samples.shape[1])]
