"""How much each axis decides: importance of axes by Optuna's PED-ANOVA."""

import warnings
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from results.cells import Cells, Point, Table, is_number

FEW = 50
"""Settings below which a table says that its shares are rough."""


def axis_importance(points: Sequence[Point], cells: Cells) -> Table:
    """How much of what separates a model's best tenth of runs from all its runs is decided by each axis.

    PED-ANOVA: Watanabe, Bansal & Hutter, "PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary
    Subspaces", IJCAI 2023, as Optuna has it. Of settings: the runs that differ in their seed alone are one, with their
    mean. Shares of a model sum to 1. Columns: model, axis, importance, n (settings with a result, diverged runs as the
    worst) and few (whether n is below FEW).
    """
    results = {
        (cell.model, cell.facet, cell.x, cell.y, run.setting, run.seed): run.result
        for cell in cells.cells
        for run in cell.runs
    }
    settings: dict[str, dict[tuple, tuple[Point, list[float]]]] = {model: {} for model in cells.models}
    for point in points:
        setting = tuple(point.get(name) for name in cells.averaged_axes)
        place = tuple(name and point.get(name) for name in (cells.facet, cells.x, cells.y))
        result = results.get((point["model"], *place, setting, point.get("seed")))
        if result is not None:
            settings[point["model"]].setdefault((place, setting), (point, []))[1].append(result)
    table: Table = []
    for model in cells.models:
        found = [point for point, _ in settings[model].values()]
        numbers = [fmean(runs) for _, runs in settings[model].values()]
        axes = [name for name in points[0] if name not in ("id", "model", "seed")]
        axes = [name for name in axes if len({point.get(name) for point in found}) > 1]
        if len(found) < 4 or len(set(numbers)) < 2 or not axes:
            continue
        shares = {axes[0]: 1.0} if len(axes) == 1 else _shares(axes, found, numbers, cells.metric.sign > 0)
        rows = ({"model": model, "axis": axis, "importance": shares[axis]} for axis in axes)
        table += [{**row, "n": len(found), "few": len(found) < FEW} for row in rows]
    return table


def _shares(axes: Sequence[str], points: Sequence[Point], results: Sequence[float], maximize: bool) -> dict[str, float]:
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

    def distribution(axis: str) -> BaseDistribution:
        values: list[Any] = list(dict.fromkeys(point.get(axis) for point in points))
        if not all(map(is_number, values)):
            return CategoricalDistribution([str(value) for value in values])
        return FloatDistribution(min(values), max(values), log=min(values) > 0)

    def value(axis: str, point: Point) -> Any:
        given: Any = point.get(axis)
        return str(given) if isinstance(distributions[axis], CategoricalDistribution) else float(given)

    distributions = {axis: distribution(axis) for axis in axes}
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the evaluator is experimental
            study = optuna.create_study(direction="maximize" if maximize else "minimize")
            study.add_trials(
                [
                    optuna.trial.create_trial(
                        params={axis: value(axis, point) for axis in axes}, distributions=distributions, value=result
                    )
                    for point, result in zip(points, results, strict=True)
                ]
            )
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    finally:
        optuna.logging.set_verbosity(before)
    return {axis: float(shares.get(axis, 0.0)) for axis in axes}
