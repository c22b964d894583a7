"""Errors that a person can do something about, and the exit codes they end a command with."""

import difflib
import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

OK, SOME_FAILED, USAGE, INFRASTRUCTURE, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: all well; finished, but some trials failed; bad input; the machine's or the cluster's fault; Ctrl-C."""


SHOWN = 60
"""Characters of a value that a message repeats."""


class UsageError(ValueError):
    """Bad input. Its message is one clear line for the person who gave it: the key, the value, what would be right."""


class InfrastructureError(RuntimeError):
    """The machine or the cluster does not do its part: a full disk, no such GPU. Its message is one clear line."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A message for a name that does not exist: near matches if there are any, else all that exist."""
    known = sorted(known)
    by_lower = {each.lower(): each for each in known}
    near = [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]
    if near:
        return f"unknown {what} {shown(name)}: did you mean {' or '.join(near)}?"
    return f"unknown {what} {shown(name)}: there {'is' if len(known) == 1 else 'are'} {', '.join(known) or 'none'}"


def shown(value: Any) -> str:
    """A value as one would write it in TOML."""
    text = _written(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 4]} …{text[-1]}"


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value) if abs(value) < 10**SHOWN else "a whole number of very many digits"
    if isinstance(value, float | Decimal):
        return f"{value:g}" if isinstance(value, float) else f"{value.normalize():g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {shown(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
