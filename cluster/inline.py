"""The executor of this process: one payload after another, for one device and for debugging."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from cluster.events import Event, Finished, Function, Message, failure


class InlineExecutor:
    """Runs `function` in this process. See `cluster.events.Executor`."""

    def __init__(self, function: Function):
        self.function = function
        self.queue: deque[tuple[int, Any]] = deque()
        self.tickets = 0

    def submit(self, payload: Any, urgent: bool = False) -> int:
        self.tickets += 1
        add = self.queue.appendleft if urgent else self.queue.append
        add((self.tickets, payload))
        return self.tickets

    def events(self) -> Iterator[Event]:
        while self.queue:
            ticket, payload = self.queue.popleft()
            yield from self._run(ticket, payload)

    def drain(self) -> int:
        forgotten = len(self.queue)
        self.queue.clear()
        return forgotten

    def _run(self, ticket: int, payload: Any) -> Iterator[Event]:
        messages = iter(self.function(payload))
        while True:
            try:
                content = next(messages)
            except StopIteration:
                yield Finished(ticket)
                return
            except Exception as error:  # whatever a payload's function raises is that payload's failure alone
                yield failure(ticket, error)
                return
            yield Message(ticket, content)
