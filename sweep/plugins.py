"""A user's own tasks and mixers: modules of the working directory that a study names, and their place in identity."""

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

from models import MIXERS
from sweep.errors import UsageError, shown
from tasks import TASKS

SHIPPED = ("models", "tasks")


def load_plugins(names: Sequence[str]) -> None:
    """Imports modules, which register what they bring, from the working directory.

    Raises:
        UsageError: one cannot be imported.
    """
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name) or name.endswith(".py"):
            raise UsageError(f"plugins: {shown(name)} is no name of a module: my_mixers.py is my_mixers")
        here = os.getcwd()
        if here not in sys.path:
            sys.path.insert(0, here)
        try:
            import_module(name)
        except (Exception, SystemExit) as error:  # whatever a user's module may raise
            reason = f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(": ")
            raise UsageError(f"plugins: cannot import {name} from {here}: {reason}") from error


def code_of(mixer: str, task: str) -> str | None:
    """A hash of the user's code that a mixer and a task come from: 16 hexadecimal digits; None where both ship."""
    modules = {MIXERS[mixer].path.partition(":")[0], type(TASKS[task]).__module__}
    own = sorted(module for module in modules if module.partition(".")[0] not in SHIPPED)
    if not own:
        return None
    return hashlib.blake2b("\0".join(map(_content, own)).encode(), digest_size=8).hexdigest()


def files_of(name: str) -> list[Path]:
    """The source files of a module, or of all of a package."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return []
    path = Path(spec.origin)
    return sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]


@cache
def _content(module: str) -> str:
    """What a module's files held when this process first asked: what it has imported."""
    return module + "\0" + "\0".join(path.read_text() for path in files_of(module))
