"""The executor on Ray: long-lived workers, one a processor or a GPU, on this machine or on all of a cluster's.

Ray's own retries are off: what is lost with a worker or a node goes back to the queue here, so that a preemption costs
nothing and a payload that kills its workers is found.
"""

import time
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.autoscaler.sdk import request_resources
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.connect import Slots, connect, described, first_line, last_line
from cluster.events import ClusterError, Event, Failed, Finished, Function, Notice, Returned
from cluster.ray_worker import Worker

POLL_SECONDS = 1.0
FOLLOW_SECONDS = 2.0
"""How often the cluster's nodes are looked at."""

PATIENCE_SECONDS = 8.0
"""How long the first worker's resources may be missing before it is said that they do not exist."""

START_SECONDS = 60.0
"""How long a worker may take to start before another node is tried."""

MOST_STILLBORN = 3
"""Workers in a row that may end while they start."""

MOST_ASKED = 200
"""Workers that an autoscaler is asked for at most."""

BAD_NODE = 3
"""Failures in a row after which a node is avoided, while there are others."""


@dataclass
class Task:
    """A payload on its way."""

    ticket: int
    payload: Any
    kind: Hashable


@dataclass
class Member:
    """A worker as this process sees it.

    Attributes:
        actor, node: what it is and where.
        ready: refers to its start.
        since: when it was asked for, seconds of the monotonic clock.
        task, stream: what it runs, and where that comes from. One payload at a time: were a second waiting in the
            worker, the death of one could not be told from that of the other.
        kinds: of the payloads that it has run.
    """

    actor: Any
    node: str
    ready: Any
    since: float
    started: bool = False
    task: Task | None = None
    stream: Any = None
    kinds: set[Hashable] = field(default_factory=set)


@dataclass
class Node:
    """A node of the cluster."""

    id: str
    name: str
    resources: dict[str, float]
    failures: int = 0
    successes: int = 0


class RayExecutor:
    """Runs `function` in workers of a Ray cluster. See `cluster.events.Executor`.

    Args:
        function: importable by name in a worker.
        slots: what a worker takes.
        address: of a cluster to join; None starts a private Ray on this machine and ends it in `close`.
        wait: wait for resources that are not there, in place of raising.
        environment: Ray's `runtime_env` for the workers.

    Raises:
        ClusterError: the cluster cannot be reached.
    """

    def __init__(
        self,
        function: Function,
        slots: Slots,
        address: str | None = None,
        wait: bool = False,
        environment: dict[str, Any] | None = None,
    ):
        self.function, self.slots, self.wait = function, slots, wait
        self.queue: deque[Task] = deque()
        self.members: list[Member] = []
        self.nodes: dict[str, Node] = {}
        self.avoided: set[str] = set()
        self.full: dict[str, float] = {}
        self.tickets = self.asked = self.stillborn = 0
        self.address = address
        self.draining = self.waiting = False
        self.began = self.followed = 0.0
        connect(slots, address, environment)

    def submit(self, payload: Any, urgent: bool = False, kind: Hashable = None) -> int:
        self.tickets += 1
        add = self.queue.appendleft if urgent else self.queue.append
        add(Task(self.tickets, payload, kind))
        return self.tickets

    def drain(self) -> int:
        forgotten = len(self.queue)
        self.queue.clear()
        self.draining = True
        return forgotten

    def close(self) -> None:
        for member in self.members:
            self._dismiss(member)
        self.members = []
        self._ask_for(0)
        ray.shutdown()

    def _dismiss(self, member: Member) -> None:
        with suppress(RayError, ValueError):
            ray.kill(member.actor)

    def events(self) -> Iterator[Event]:
        try:
            yield from self._events()
        except RayError as error:
            raise ClusterError(f"the cluster is lost: {first_line(error)}") from error

    def _events(self) -> Iterator[Event]:
        self.began = time.monotonic()
        while self.queue or any(member.task for member in self.members):
            yield from self._follow()
            yield from self._judged()
            self._feed()
            streams = {member.stream: member for member in self.members if member.task}
            waiting = [*streams, *(member.ready for member in self.members if not member.started)]
            if not waiting:
                time.sleep(POLL_SECONDS / 4)
                continue
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
            if not ready:
                ready, _ = ray.wait(waiting, timeout=POLL_SECONDS)
            for each in ready:
                if each in streams:
                    yield from self._taken(streams[each])
                else:
                    self._begun(next(member for member in self.members if member.ready == each))

    def _taken(self, member: Member) -> Iterator[Event]:
        """The next event of what a worker runs."""
        try:
            event = ray.get(next(member.stream))
        except RayError as error:
            yield from self._lost(member, error)
            return
        if isinstance(event, Finished | Failed):
            member.task = member.stream = None
        yield event
        node = self.nodes.get(member.node)
        if isinstance(event, Finished) and node is not None:
            node.failures, node.successes = 0, node.successes + 1
        if isinstance(event, Failed):
            self._blamed(member)
            if event.kind == "died":  # its process is there and of no use
                self._dismiss(member)
                self.members.remove(member)

    def _begun(self, member: Member) -> None:
        """A worker that was starting has started, or could not.

        Raises:
            ClusterError: several in a row could not.
        """
        try:
            ray.get(member.ready)
        except RayError as error:
            self.members.remove(member)
            self._blamed(member)
            self.stillborn += 1
            if self.stillborn >= MOST_STILLBORN and member.node in self.nodes:
                raise ClusterError(f"workers cannot start: {last_line(error)}") from error
        else:
            member.started, self.stillborn = True, 0

    def _lost(self, member: Member, error: RayError) -> Iterator[Event]:
        """A worker is gone. What it ran has failed, unless its node is gone too."""
        self.members.remove(member)
        self._dismiss(member)
        task = member.task
        assert task is not None
        if self._node_is_gone(member.node, error):
            if not self.draining:
                self.queue.appendleft(task)
            yield Returned(task.ticket)
            return
        yield Failed(task.ticket, "died", f"the worker process died: {first_line(error)}")
        self._blamed(member)

    def _node_is_gone(self, node: str, error: RayError) -> bool:
        """Whether a worker died with its node."""
        if getattr(error, "preempted", False) or "node has died" in str(error):
            return True
        return node not in {each["NodeID"] for each in ray.nodes() if each["Alive"]}

    def _blamed(self, member: Member) -> None:
        """Counts a failure against a worker's node."""
        if member.node in self.nodes:
            self.nodes[member.node].failures += 1

    def _judged(self) -> Iterator[Event]:
        """Avoids nodes with several failures in a row, where another node does better; until none is left."""
        for node in self.nodes.values():
            better = any(other.successes for other in self._others(node))
            if node.failures >= BAD_NODE and node.id not in self.avoided and better:
                self.avoided.add(node.id)
                yield Notice(f"node {node.name} is avoided from now on: {node.failures} failures in a row")
        if self.avoided and not set(self.nodes) - self.avoided:
            self.avoided.clear()
            for node in self.nodes.values():
                node.failures = 0
            yield Notice("only nodes that are avoided are left: they are used again")
        for member in [each for each in self.members if each.node in self.avoided and not each.task]:
            self._dismiss(member)
            self.members.remove(member)

    def _others(self, node: Node) -> list[Node]:
        """Nodes with workers at work that are not avoided, but for this one."""
        there = {member.node for member in self.members if member.started} - self.avoided - {node.id}
        return [self.nodes[id] for id in there if id in self.nodes]

    def _is_suspect(self, id: str) -> bool:
        """Whether a node gets nothing for now: it fails, and what others do is not known. Where they fail too, it is
        the payloads that are bad."""
        node = self.nodes.get(id)
        if node is None or node.failures < BAD_NODE:
            return False
        return any(not other.failures and not other.successes for other in self._others(node))

    def _follow(self) -> Iterator[Event]:
        """Makes the set of workers that of the cluster's nodes."""
        if time.monotonic() - self.followed < FOLLOW_SECONDS and self.members:
            return
        self.followed = time.monotonic()
        alive = {each["NodeID"]: each for each in ray.nodes() if each["Alive"]}
        for gone in set(self.nodes) - set(alive):
            yield Notice(f"node {self.nodes.pop(gone).name} has left")
        for id, each in alive.items():
            if id not in self.nodes:
                self.nodes[id] = Node(id, each["NodeManagerHostname"], each["Resources"])
                if self.members:
                    yield Notice(f"node {self.nodes[id].name} has joined")
        self._move_on()
        self._hire()
        if not self.members and not self.draining:
            if any(self.slots.on(node.resources) for node in self.nodes.values()):
                if not self.waiting:
                    self.waiting = True
                    yield Notice(f"waiting for room: a worker takes {self.slots}, and others hold what there is")
            else:
                self._check_room()

    def _hire(self) -> None:
        """Starts workers where there is room and work for them."""
        wanted = len(self.queue) + sum(member.task is not None for member in self.members)
        most = wanted if self.slots.most is None else min(self.slots.most, wanted)
        self._ask_for(most)
        for node in self.nodes.values():
            if node.id in self.avoided or time.monotonic() - self.full.get(node.id, -START_SECONDS) < START_SECONDS:
                continue
            there = sum(member.node == node.id for member in self.members)
            for _ in range(self.slots.on(node.resources) - there):
                if len(self.members) >= most:
                    return
                self._start(node)

    def _move_on(self) -> None:
        """Gives up workers that have waited long for room on their node, where another node may have it: in a cluster
        that others use, a node's resources are not ours."""
        late = time.monotonic() - START_SECONDS
        for member in [each for each in self.members if not each.started and each.since < late]:
            self._dismiss(member)
            self.members.remove(member)
            self.full[member.node] = time.monotonic()

    def _ask_for(self, workers: int) -> None:
        """Tells a cluster's autoscaler what there is work for: workers are started on nodes that are there, which no
        autoscaler would see as demand."""
        workers = min(workers, MOST_ASKED)
        if self.address is None or workers == self.asked:
            return
        self.asked = workers
        bundle = {kind: count for kind, count in (("CPU", self.slots.cpus), ("GPU", self.slots.gpus)) if count}
        with suppress(RayError, RuntimeError):  # a cluster without an autoscaler
            request_resources(bundles=[bundle] * workers)

    def _start(self, node: Node) -> None:
        where = NodeAffinitySchedulingStrategy(node.id, soft=False)
        options = {"num_cpus": self.slots.cpus, "num_gpus": self.slots.gpus, "scheduling_strategy": where}
        remote: Any = Worker
        actor = remote.options(max_restarts=0, max_task_retries=0, **options).remote(self.function, self.slots.memory)
        self.members.append(Member(actor, node.id, actor.ready.remote(), time.monotonic()))

    def _check_room(self) -> None:
        """Raises ClusterError where no node has what a worker takes, after some patience."""
        if self.wait or time.monotonic() - self.began < PATIENCE_SECONDS:
            return
        room = ", ".join(f"{node.name}: {described(node.resources)}" for node in self.nodes.values()) or "no nodes"
        raise ClusterError(
            f"no node has room for a worker, which takes {self.slots}; there is {room} "
            "(--wait-for-resources waits for more)"
        )

    def _feed(self) -> None:
        """Gives workers what is queued: of kinds that they have run before if there are any, else the next."""
        for member in self.members:
            free = member.started and not member.task and member.node not in self.avoided
            if self.queue and free and not self._is_suspect(member.node):
                member.task = self._chosen(member)
                run = member.actor.run.options(num_returns="streaming")
                member.stream = run.remote(member.task.ticket, member.task.payload)
                member.kinds.add(member.task.kind)

    def _chosen(self, member: Member) -> Task:
        """Takes from the queue what a worker is to run next."""
        taken = {kind for other in self.members if other is not member for kind in other.kinds}
        for wanted in (lambda kind: kind in member.kinds, lambda kind: kind not in taken):
            for task in self.queue:
                if wanted(task.kind):
                    self.queue.remove(task)
                    return task
        return self.queue.popleft()
