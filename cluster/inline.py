"""The executor of this process: one payload after another, for one device and for debugging."""

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

from cluster.events import ClusterError, Event, Failed, Function, events_of


class InlineExecutor:
    """Runs `function` in this process. See `cluster.events.Executor`."""

    def __init__(self, function: Function):
        self.function = function
        self.queue: deque[tuple[int, Any]] = deque()
        self.tickets = 0

    def submit(self, payload: Any, urgent: bool = False, kind: Hashable = None) -> int:
        self.tickets += 1
        add = self.queue.appendleft if urgent else self.queue.append
        add((self.tickets, payload))
        return self.tickets

    def events(self) -> Iterator[Event]:
        while self.queue:
            ticket, payload = self.queue.popleft()
            for event in events_of(ticket, self.function, payload):
                if isinstance(event, Failed) and event.kind == "died":
                    raise ClusterError(f"this process cannot go on: {event.error.strip().splitlines()[-1]}")
                yield event

    def drain(self) -> int:
        forgotten = len(self.queue)
        self.queue.clear()
        return forgotten

    def close(self) -> None:
        pass
