"""The pool on Ray, on a private Ray of this machine: what is lost comes back, and what kills its worker is found."""

import os
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from cluster.connect import Slots
from cluster.events import ClusterError, Failed, Finished, Message
from cluster.ray_pool import RayExecutor
from tests.cluster.work import work

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Workers find the tests' own modules."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


@pytest.fixture
def start():
    """Starts executors, and ends them."""
    started = []

    def start(**options) -> RayExecutor:
        started.append(RayExecutor(work, **options))
        return started[-1]

    yield start
    for executor in started:
        executor.close()


def outcome(executor: RayExecutor) -> dict[int, list]:
    """Events by ticket, until all is done."""
    seen = defaultdict(list)
    for event in executor.events():
        seen[getattr(event, "ticket", 0)].append(event)
    return seen


def test_every_payload_ends_as_it_should_whatever_its_neighbours_do(start, tmp_path):
    executor = start(slots=Slots(cpus=1, most=4, memory=700 * 2**20))
    plain = [executor.submit({}) for _ in range(20)]
    wild = {
        do: executor.submit({"do": do, "bytes": 3 * 2**30, "mark": str(tmp_path / "mark")})
        for do in ("exit", "raise", "print", "allocate")
    }
    seen = outcome(executor)
    for ticket in [*plain, wild["print"]]:
        assert isinstance(seen[ticket][0], Message) and seen[ticket][-2:] == [Message(ticket, "done"), Finished(ticket)]
    assert all(sum(isinstance(event, Finished | Failed) for event in events) == 1 for events in seen.values())
    (died,) = [event for event in seen[wild["exit"]] if isinstance(event, Failed)]
    assert died.kind == "died" and "worker process died" in died.error
    (raised,) = [event for event in seen[wild["raise"]] if isinstance(event, Failed)]
    assert raised.kind == "exception" and "ValueError: as told" in raised.error and "said before" in raised.error
    (large,) = [event for event in seen[wild["allocate"]] if isinstance(event, Failed)]
    assert large.kind == "oom"


def test_a_worker_that_is_of_no_use_any_more_is_replaced(start):
    executor = start(slots=Slots(cpus=1, most=1))
    bad, good = executor.submit({"do": "break"}), executor.submit({})
    seen = outcome(executor)
    (failed,) = [event for event in seen[bad] if isinstance(event, Failed)]
    assert failed.kind == "died" and "the accelerator is gone" in failed.error
    assert isinstance(seen[good][-1], Finished) and seen[good][0].content != seen[bad][0].content


def test_messages_come_while_a_payload_runs(start):
    executor, came = start(slots=Slots(cpus=1, most=1)), []
    executor.submit({"do": "sleep", "seconds": 3.0})
    for event in executor.events():
        if isinstance(event, Message):
            came.append((event.content, time.monotonic()))
    (_, first), (last, end) = came
    assert last == "done" and end - first > 2


def test_a_worker_gets_payloads_of_kinds_that_it_has_run(start):
    executor = start(slots=Slots(cpus=1, most=2))
    kinds = {executor.submit({"do": "sleep", "seconds": 0.05}, kind=kind): kind for kind in "ab" * 12}
    ran = defaultdict(list)
    for ticket, events in outcome(executor).items():
        if ticket:
            ran[events[0].content].append(kinds[ticket])
    assert len(ran) == 2
    changes = sum(one != other for run in ran.values() for one, other in pairwise(run))
    assert changes <= 4, "each worker keeps to its kind, but for the end"


def test_what_fits_no_node_is_said_soon(start):
    executor = start(slots=Slots(cpus=1, gpus=8, most=1))
    executor.submit({})
    began = time.monotonic()
    with pytest.raises(
        ClusterError, match=r"no node has room for a worker, which takes 1 CPU and 8 GPU; there is .*0 GPU"
    ):
        list(executor.events())
    assert time.monotonic() - began < 10


def test_draining_lets_what_runs_finish_and_forgets_the_rest(start):
    executor = start(slots=Slots(cpus=1, most=1))
    tickets = [executor.submit({"do": "sleep", "seconds": 0.5}) for _ in range(6)]
    finished = []
    for event in executor.events():
        if isinstance(event, Message) and event.ticket == tickets[0] and event.content != "done":
            assert executor.drain() == 5
        if isinstance(event, Finished):
            finished.append(event.ticket)
    assert finished[0] == tickets[0] and len(finished) == 1


def test_no_cluster_at_an_address_is_an_error():
    with pytest.raises(ClusterError, match=r"no Ray cluster answers at 127\.0\.0\.1:1"):
        RayExecutor(work, Slots(), address="127.0.0.1:1")
