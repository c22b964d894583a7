"""Errors that a person can do something about, and the exit codes they end a command with."""

import difflib
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

OK, SOME_FAILED, USAGE, INFRASTRUCTURE, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: all well; finished, but some trials failed; bad input; the machine's or the cluster's fault; Ctrl-C."""


class UsageError(ValueError):
    """Bad input. Its message is one clear line for the person who gave it: the key, the value, what would be right."""


class InfrastructureError(RuntimeError):
    """The machine or the cluster does not do its part: a full disk, no such GPU. Its message is one clear line."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A message for a name that does not exist: near matches if there are any, else all that exist."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        return f"unknown {what} {name!r}: did you mean {' or '.join(near)}?"
    return f"unknown {what} {name!r}: there {'is' if len(known) == 1 else 'are'} {', '.join(known) or 'none'}"


def shown(value: Any) -> str:
    """A value as one would write it in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal):
        return f"{float(value):g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)
