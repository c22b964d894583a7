"""Synthetic tasks: numpy generators of labelled sequences. How to add one: tasks/README.md."""

from tasks.base import IGNORED, READOUTS, Batch, Task
from tasks.cases import Cases, LocalGlobal
from tasks.classification import First, Majority, Parity
from tasks.dyck import Dyck
from tasks.listops import ListOps
from tasks.mode import Mode
from tasks.recall import Induction, MultiRecall, Recall
from tasks.streams import stream

__all__ = ["IGNORED", "READOUTS", "TASKS", "TASK_NAMES", "Batch", "Task", "register", "stream"]

TASKS: dict[str, Task] = {}
"""Generators by name: the `task` of a trial."""

TASK_NAMES: dict[str, dict[str, str]] = {}
"""What a study may say for `task`, and the parts of a trial it stands for: a generator, and perhaps a readout."""


def register(task: Task) -> None:
    """Makes `task` available to studies under its name.

    Raises:
        ValueError: the name is taken by another task, or a readout is unknown.
    """
    if task.name in TASK_NAMES and type(TASKS.get(task.name)) is not type(task):
        raise ValueError(f"there is a task named {task.name} already")
    for readout in task.readouts:
        if readout not in READOUTS:
            raise ValueError(f"task {task.name}: readout {readout!r} is none of {', '.join(READOUTS)}")
    TASKS[task.name] = task
    TASK_NAMES[task.name] = {"task": task.name}


register(Cases())
register(LocalGlobal())
register(Mode())
for _task in (First(), Majority(), Parity(), Recall(), Induction(), MultiRecall(), ListOps(), Dyck()):
    register(_task)
TASK_NAMES["cases_first"] = {"task": "cases", "readout": "first_token"}
