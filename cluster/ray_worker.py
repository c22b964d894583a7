"""A worker process of the pool on Ray."""

import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import ray

from cluster.events import KEPT_TRACEBACK, Event, Function, events_of


class Tail(io.TextIOBase):
    """Takes what is printed, and keeps its end: a payload that prints much fills no disk."""

    def __init__(self):
        self.text = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text = (self.text + text[-KEPT_TRACEBACK:])[-KEPT_TRACEBACK:]
        return len(text)


@ray.remote
class Worker:
    """Runs payloads one after another, and lives on between them: what is compiled stays compiled."""

    def __init__(self, function: Function, memory: int | None):
        self.function = function
        if memory is not None:
            limit_memory(memory)

    def ready(self) -> None:
        """Returns once the process is there."""

    def run(self, ticket: int, payload: Any) -> Iterator[Event]:
        """Yields what happens."""
        tail = Tail()
        with redirect_stdout(tail), redirect_stderr(tail):
            yield from events_of(ticket, self.function, payload, lambda: tail.text)


def limit_memory(memory: int) -> None:
    """Makes this process's allocations fail beyond so many bytes more than it has now; Linux alone has such limits."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    with open("/proc/self/status") as status:
        (data,) = (int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (data + memory, hard))
