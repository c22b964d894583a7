"""Where packs run: in this process, in workers on this machine, or in those of a cluster."""

import os
from dataclasses import dataclass
from typing import Any

from cluster.events import ClusterError, Executor
from results.words import counted
from sweep import work
from sweep.device import chosen_device, free_memory
from sweep.errors import InfrastructureError, UsageError, shown
from sweep.work import available_threads

EXECUTORS = ("auto", "inline", "ray")

ASSUMED_GPU_MEMORY = 14 * 2**30
"""Free bytes of a GPU on another machine, which cannot be asked: those of the smallest that are common there."""


@dataclass(frozen=True)
class Place:
    """What was asked of where to run, and what follows from it.

    Attributes:
        executor: "inline" or "ray".
        device: of a worker.
        workers: of this machine; None: as many as a cluster has room for.
        threads: of a worker.
        gpus: share of a GPU that a worker takes.
        address: of a cluster to join.
        wait: whether to wait for resources that are not there.
        memory: bytes that a worker may allocate.
    """

    executor: str
    device: str
    workers: int | None
    threads: int
    gpus: float = 0.0
    address: str | None = None
    wait: bool = False
    memory: int | None = None

    def __str__(self) -> str:
        each = f"{self.device}, {counted(self.threads, 'thread')}" if self.device == "cpu" else self.device
        if self.executor == "inline":
            return each
        where = f" of the cluster at {self.address}" if self.address else ""
        workers = counted(self.workers, "worker") if self.workers else "as many workers as there is room for"
        return f"{workers}{where} ({each} each)"

    @property
    def pack_memory(self) -> int | None:
        """Free bytes of a worker's share of its GPU; None on a CPU."""
        if not self.device.startswith("cuda"):
            return None
        if self.address is not None:
            return int(ASSUMED_GPU_MEMORY * self.gpus)
        return int((free_memory(self.device) or ASSUMED_GPU_MEMORY) * (self.gpus or 1.0))

    def start(self, plugins: bool = False) -> Executor:
        """The executor, ready to take packs; with `plugins`, its workers find modules of the working directory.

        Raises:
            InfrastructureError: no cluster answers.
        """
        if self.executor == "inline":
            from cluster.inline import InlineExecutor

            return InlineExecutor(work.train_pack)
        from cluster.connect import Slots
        from cluster.ray_pool import RayExecutor

        path = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
        environment = {"env_vars": {"PYTHONPATH": path}}
        slots = Slots(cpus=float(self.threads), gpus=self.gpus, most=self.workers, memory=self.memory)
        try:
            return RayExecutor(work.train_pack, slots, self.address, self.wait, environment if plugins else None)
        except ClusterError as error:
            raise InfrastructureError(str(error)) from None


def check_address(address: str) -> None:
    """Raises UsageError where --address is none of a Ray cluster."""
    host, _, port = address.rpartition(":")
    if address != "auto" and not (host and "/" not in host and port.isdigit() and 0 < int(port) < 2**16):
        raise UsageError(f"--address {shown(address)}: say HOST:PORT of a Ray cluster (`ray start` shows it), or auto")


def _check_sharing(workers_per_gpu: int, device: str) -> None:
    if workers_per_gpu > 1 and device != "cuda":
        raise UsageError(f"--workers-per-gpu {workers_per_gpu}: workers share GPUs, and this would run on {device}")


def place(
    *,
    executor: str,
    device: str,
    workers: int | None,
    threads: int | None,
    workers_per_gpu: int,
    address: str | None,
    wait: bool,
    memory: int | None,
) -> Place:
    """What the command line asks for.

    Raises:
        UsageError: what does not go together, or is not there.
    """
    if executor not in EXECUTORS:
        raise UsageError(f"--executor {executor}: must be one of {', '.join(EXECUTORS)}")
    if executor == "inline" and (address or (workers or 1) > 1):
        surplus = "--address" if address else "--workers"
        raise UsageError(f"--executor inline runs in this process alone: leave out {surplus}")
    if executor == "inline" and memory is not None:
        raise UsageError("--worker-memory limits workers, and --executor inline has none: leave one of them out")
    if wait and address is None:
        raise UsageError("--wait-for-resources waits for those of a cluster: name it with --address")
    if address is not None:
        check_address(address)
    here: dict[str, Any] = {"address": address, "wait": wait, "memory": memory}
    if address is not None:
        on = "cpu" if device == "auto" else device
        if on not in ("cpu", "cuda"):
            raise UsageError(f"--device {device}: on a cluster it is auto, cpu or cuda; a worker sees the GPU it has")
        _check_sharing(workers_per_gpu, on)
        return Place("ray", on, workers, threads or 1, 1 / workers_per_gpu if on == "cuda" else 0.0, **here)
    on = chosen_device(device)
    _check_sharing(workers_per_gpu, on)
    if on == "cuda":  # all of them; cuda:1 is that one
        import torch

        slots = workers or torch.cuda.device_count() * workers_per_gpu
        kind = executor if executor != "auto" else ("ray" if slots > 1 else "inline")
        return Place(kind, on, slots, threads or 1, 1 / workers_per_gpu, **here)
    slots = workers or (max(available_threads() // (threads or 1), 1) if on == "cpu" else 1)
    kind = executor if executor != "auto" else ("ray" if slots > 1 else "inline")
    if kind == "inline":
        return Place(kind, on, 1, threads or available_threads(), **here)
    return Place(kind, on, slots, threads or 1, **here)
