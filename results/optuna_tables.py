"""Optuna's own tables: many finished trials written at once."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it takes a second to load
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial


def add_trials(storage: "RDBStorage", name: str, trials: Sequence["FrozenTrial"]) -> None:
    """Adds finished trials to an Optuna study in one transaction: all or none.

    `Study.add_trials` does the same, and asks the database three times for each value of each trial: 5,000 trials of
    32 epochs took it five minutes. So this writes to Optuna's own tables, which are as they are since its version 3.2,
    and whose version `RDBStorage` has checked.
    """
    from optuna.storages._rdb import models
    from sqlalchemy import insert
    from sqlalchemy.orm import Session

    study_id = storage.get_study_id_from_name(name)
    with Session(storage.engine) as session, session.begin():
        models.StudyModel.find_or_raise_by_id(study_id, session, for_update=True)  # numbers are counted under its lock
        count = session.query(models.TrialModel).filter_by(study_id=study_id).count()
        heads: list[Any] = [
            models.TrialModel(
                study_id=study_id,
                number=number,
                state=trial.state,
                datetime_start=trial.datetime_start,
                datetime_complete=trial.datetime_complete,
            )
            for number, trial in enumerate(trials, count)
        ]
        session.add_all(heads)
        session.flush()  # now they have ids
        for table, rows in _details({head.trial_id: trial for head, trial in zip(heads, trials)}).items():
            session.execute(insert(table), rows)


def _details(trials: Mapping[int, "FrozenTrial"]) -> dict[Any, list[dict[str, Any]]]:
    """What Optuna keeps of trials beside their heads: rows by table, of the tables that have any."""
    from optuna.distributions import distribution_to_json
    from optuna.storages._rdb import models

    rows: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for trial_id, trial in trials.items():
        for name, value in trial.params.items():
            distribution = trial.distributions[name]
            rows[models.TrialParamModel].append(
                {
                    "trial_id": trial_id,
                    "param_name": name,
                    "param_value": distribution.to_internal_repr(value),
                    "distribution_json": distribution_to_json(distribution),
                }
            )
        for key, value in trial.user_attrs.items():
            rows[models.TrialUserAttributeModel].append(
                {"trial_id": trial_id, "key": key, "value_json": json.dumps(value)}
            )
        if trial.value is not None:
            final, final_kind = models.TrialValueModel.value_to_stored_repr(trial.value)
            rows[models.TrialValueModel].append(
                {"trial_id": trial_id, "objective": 0, "value": final, "value_type": final_kind}
            )
        for step, value in trial.intermediate_values.items():
            stored, kind = models.TrialIntermediateValueModel.intermediate_value_to_stored_repr(value)
            rows[models.TrialIntermediateValueModel].append(
                {
                    "trial_id": trial_id,
                    "step": step,
                    "intermediate_value": stored,
                    "intermediate_value_type": kind,
                }
            )
    return rows
