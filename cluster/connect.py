"""Joins a Ray cluster, or starts a private Ray; and what a worker takes of it."""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from cluster.events import ClusterError

REACH_SECONDS = 5.0

OBJECT_STORE_BYTES = 80 * 2**20
"""Of a private Ray: messages are small."""


@dataclass(frozen=True)
class Slots:
    """What a worker takes of a node.

    Attributes:
        cpus, gpus: a worker's.
        most: workers at most; None: as many as there is room for.
        memory: bytes beyond which a worker's allocations fail; None: no limit.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    most: int | None = None
    memory: int | None = None

    def on(self, resources: dict[str, float]) -> int:
        """Workers that fit a node of these resources."""
        fits = [resources.get("CPU", 0.0) / self.cpus] if self.cpus else []
        fits += [resources.get("GPU", 0.0) / self.gpus] if self.gpus else []
        return int(min(fits) + 1e-9)

    def __str__(self) -> str:
        return " and ".join(f"{count:g} {kind}" for kind, count in (("CPU", self.cpus), ("GPU", self.gpus)) if count)


def connect(slots: Slots, address: str | None, environment: dict[str, Any] | None) -> None:
    """Joins a cluster, or starts a private Ray without dashboard, usage statistics or logs on the terminal.

    Raises:
        ClusterError: no cluster answers at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "runtime_env": environment}
    if address is not None:
        _check_reachable(address)
        try:
            ray.init(address=address, **quiet)
            _mute()
        except (ConnectionError, RuntimeError, ValueError, RayError) as error:
            raise ClusterError(f"no Ray cluster answers at {address}: {first_line(error)}") from None
        return
    most = slots.most or 1
    cpus = max(int(most * slots.cpus), 1)
    try:
        ray.init(
            address="local", num_cpus=cpus, include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet
        )
    except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
        raise ClusterError(f"Ray does not start here: {first_line(error)}") from None
    _mute()


def _check_reachable(address: str) -> None:
    """Raises ClusterError where nothing listens: Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_SECONDS).close()
    except OSError as error:
        raise ClusterError(f"no Ray cluster answers at {address}: {error.strerror or error}") from None


def _mute() -> None:
    """Keeps Ray from printing that a worker died: that is an event here. It has no public switch for this."""
    with suppress(Exception):
        import ray._private.worker as inside

        inside.print_to_stdstream = lambda *_, **__: None


def first_line(error: BaseException) -> str:
    """What an error says first."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def last_line(error: BaseException) -> str:
    """What an error says last: of a remote one, what it was."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)


def described(resources: dict[str, float]) -> str:
    """A node's resources in words."""
    return ", ".join(f"{resources.get(kind, 0.0):g} {kind}" for kind in ("CPU", "GPU"))
