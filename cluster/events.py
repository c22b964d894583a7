"""What an executor reports, and the one interface of all executors."""

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

KEPT_TRACEBACK = 16 * 1024
"""Characters of a traceback that are kept: its end, which says what went wrong."""

Function = Callable[[Any], Iterator[Any]]
"""What an executor runs: takes a payload and yields messages until it is finished."""


@dataclass(frozen=True)
class Message:
    """Something the function yielded for a payload."""

    ticket: int
    content: Any


@dataclass(frozen=True)
class Finished:
    """The function came to its end for a payload."""

    ticket: int


@dataclass(frozen=True)
class Failed:
    """The function raised for a payload.

    Attributes:
        kind: "oom" where memory ran out, else "exception".
        error: the end of the traceback.
    """

    ticket: int
    kind: str
    error: str


Event = Message | Finished | Failed


class Executor(Protocol):
    """Runs one function over payloads. Modelled on `concurrent.futures`, with events in place of futures."""

    def submit(self, payload: Any, urgent: bool = False) -> int:
        """Queues a payload, before all others if urgent, and returns its ticket."""

    def events(self) -> Iterator[Event]:
        """Runs what is queued and yields what happens, until nothing is queued or running. More may be submitted
        meanwhile."""

    def drain(self) -> int:
        """Forgets what is queued and lets what is running finish. Returns how many payloads were forgotten."""


def failure(ticket: int, error: Exception) -> Failed:
    """The event of an exception."""
    lines = "".join(traceback.format_exception(error))
    return Failed(ticket, "oom" if is_out_of_memory(error) else "exception", lines[-KEPT_TRACEBACK:])


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out: Python's own error, an accelerator's, or that of an allocator on the CPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("out of memory", "not enough memory", "can't allocate memory")
    )
