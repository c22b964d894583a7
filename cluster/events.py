"""What an executor reports, and the one interface of all executors."""

import traceback
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

KEPT_TRACEBACK = 16 * 1024
"""Characters of a traceback that are kept: its end, which says what went wrong."""

Function = Callable[[Any], Iterator[Any]]
"""What an executor runs: takes a payload and yields messages until it is finished."""


class ClusterError(Exception):
    """The cluster cannot do what is asked; the message is for its user."""


class BrokenProcess(Exception):
    """To be raised by a function after whose failure its process is of no use any more, as an accelerator's may be."""


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
    """The function ended early for a payload.

    Attributes:
        kind: "oom" where memory ran out, "died" where the process that ran it did or is of no use any more, else
            "exception".
        error: the end of the traceback, or how the process died.
    """

    ticket: int
    kind: str
    error: str


@dataclass(frozen=True)
class Returned:
    """A payload that was running is in the queue again, through no fault of its own: its node left, say."""

    ticket: int


@dataclass(frozen=True)
class Notice:
    """Something that a person would want to know of the cluster."""

    text: str


Event = Message | Finished | Failed | Returned | Notice


class Executor(Protocol):
    """Runs one function over payloads. Modelled on `concurrent.futures`, with events in place of futures."""

    def submit(self, payload: Any, urgent: bool = False, kind: Hashable = None) -> int:
        """Queues a payload, before all others if urgent, and returns its ticket. A worker that has run a payload of a
        kind is given others of it while there are any."""

    def events(self) -> Iterator[Event]:
        """Runs what is queued and yields what happens, until nothing is queued or running. More may be submitted
        meanwhile."""

    def drain(self) -> int:
        """Forgets what is queued and lets what is running finish. Returns how many payloads were forgotten."""

    def close(self) -> None:
        """Ends what the executor has started."""


def events_of(ticket: int, function: Function, payload: Any, output: Callable[[], str] = str) -> Iterator[Event]:
    """Runs the function on a payload, here, and yields what happens.

    Args:
        output: gives the end of what was printed meanwhile; it goes with a failure.
    """
    messages = iter(function(payload))
    while True:
        try:
            content = next(messages)
        except StopIteration:
            yield Finished(ticket)
            return
        except Exception as error:  # whatever a payload's function raises is that payload's failure alone
            yield failure(ticket, error, output())
            return
        yield Message(ticket, content)


def failure(ticket: int, error: Exception, output: str = "") -> Failed:
    """The event of an exception."""
    lines = "".join(traceback.format_exception(error))
    if output:
        lines = f"… printed before:\n{output}\n{lines}" if len(lines) < KEPT_TRACEBACK else lines
    kind = "died" if isinstance(error, BrokenProcess) else "oom" if is_out_of_memory(error) else "exception"
    return Failed(ticket, kind, lines[-KEPT_TRACEBACK:])


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out: Python's own error, an accelerator's, or that of an allocator on the CPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("out of memory", "not enough memory", "can't allocate memory", "ALLOC_FAILED")
    )
