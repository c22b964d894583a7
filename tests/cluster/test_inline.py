"""The inline executor: order, messages, failures that stay with their payload."""

import pytest

from cluster.events import KEPT_TRACEBACK, Failed, Finished, Message
from cluster.inline import InlineExecutor


def count_up(payload):
    for number in range(payload):
        if number == 3:
            raise ValueError("three is too many")
        yield number


def test_payloads_run_in_order_and_each_message_comes_as_it_is_made():
    executor = InlineExecutor(count_up)
    tickets = [executor.submit(2), executor.submit(1)]
    events = list(executor.events())
    assert events == [
        Message(tickets[0], 0),
        Message(tickets[0], 1),
        Finished(tickets[0]),
        Message(tickets[1], 0),
        Finished(tickets[1]),
    ]


def test_what_raises_fails_alone_with_its_traceback():
    executor = InlineExecutor(count_up)
    bad, good = executor.submit(9), executor.submit(1)
    events = list(executor.events())
    failed = next(event for event in events if isinstance(event, Failed))
    assert failed.ticket == bad and failed.kind == "exception"
    assert "ValueError: three is too many" in failed.error and "count_up" in failed.error
    assert Finished(good) in events


def test_a_long_traceback_keeps_its_end():
    def loud(payload):
        raise ValueError("x" * 100_000 + " the end")
        yield

    executor = InlineExecutor(loud)
    executor.submit(None)
    (failed,) = executor.events()
    assert len(failed.error) == KEPT_TRACEBACK and failed.error.rstrip().endswith("the end")


class OutOfMemoryError(RuntimeError):
    """As an accelerator's library names it."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), "oom"),
        (OutOfMemoryError("CUDA"), "oom"),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes"), "oom"),
        (RuntimeError("shapes do not match"), "exception"),
        (ValueError("out of memory"), "exception"),
    ],
)
def test_out_of_memory_is_told_from_other_failures(error, kind):
    def fails(payload):
        raise error
        yield

    executor = InlineExecutor(fails)
    executor.submit(None)
    assert [event.kind for event in executor.events()] == [kind]


def test_more_can_be_submitted_meanwhile_and_urgent_payloads_go_first():
    executor = InlineExecutor(count_up)
    first, last = executor.submit(1), executor.submit(1)
    finished = []
    for event in executor.events():
        if isinstance(event, Finished):
            finished.append(event.ticket)
            if event.ticket == first:
                urgent = executor.submit(1, urgent=True)
    assert finished == [first, urgent, last]


def test_draining_lets_what_runs_finish_and_forgets_the_rest():
    executor = InlineExecutor(count_up)
    executor.submit(2), executor.submit(2), executor.submit(2)
    events = []
    for event in executor.events():
        events.append(event)
        if len(events) == 1:
            assert executor.drain() == 2
    assert [type(event) for event in events] == [Message, Message, Finished]


def test_a_keyboard_interrupt_is_nobodys_failure():
    def interrupted(payload):
        raise KeyboardInterrupt
        yield

    executor = InlineExecutor(interrupted)
    executor.submit(None)
    with pytest.raises(KeyboardInterrupt):
        list(executor.events())
