"""Sweeps over thousands of small sequence models: studies, trials, plans, training and the `sweep` command.

from sweep import Study, Store

study = Study.load("quickstart")
len(study), next(study.trials()).id
Store("store").trials()          # an Arrow table
"""

from importlib import import_module

__all__ = ["Store", "Study", "Trial"]

_HOMES = {"Store": "results.store", "Study": "sweep.study", "Trial": "sweep.trial"}


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
