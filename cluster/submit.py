"""Submits a command to a Ray cluster as a job, with the files that it needs, and follows it to its end."""

import asyncio
import fnmatch
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.events import ClusterError

EXCLUDED = (".git", ".venv", "venv", "__pycache__", "*.pyc", ".*_cache", "*.egg-info", "build", "dist", "node_modules",
            "store", "reports", "*.parquet",
            ".env*", "*.pem", "*.key", ".netrc", ".aws", ".ssh", "id_*", "*credential*")  # fmt: skip
"""Names that do not travel: results, environments, caches, and what looks like a secret."""

MOST_BYTES = 100 * 2**20
POLL_SECONDS = 2.0
AGENT_TRIES = 15
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")

ADDRESS_VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
"""By which Ray changes the target of a client, an explicit address notwithstanding."""


@dataclass(frozen=True)
class Package:
    """The files of a folder that travel.

    Attributes:
        root: the folder.
        files: paths in it, and their bytes.
    """

    root: Path
    files: dict[Path, int]

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(self.files.values())

    def largest(self, count: int = 5) -> list[tuple[Path, int]]:
        """The largest files first."""
        return sorted(self.files.items(), key=lambda item: -item[1])[:count]

    def copy_to(self, folder: Path) -> None:
        """Copies the files, with their folders."""
        for path in self.files:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((self.root / path).read_bytes())


def packaged(root: Path, excluded: Iterable[str] = EXCLUDED) -> Package:
    """What of a folder travels: all but names that are excluded, and links that lead out of it."""
    files: dict[Path, int] = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not _matches(name, excluded))
        for name in sorted(names):
            path = Path(folder) / name
            if not _matches(name, excluded) and path.is_file() and path.resolve().is_relative_to(root.resolve()):
                files[path.relative_to(root)] = path.stat().st_size
    return Package(root, files)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


@dataclass(frozen=True)
class Job:
    """A job of a cluster.

    Attributes:
        id: of its submission.
        joined: whether it was there already.
    """

    id: str
    joined: bool


class Jobs:
    """The jobs of the cluster at an address, which nothing in the environment changes.

    Raises:
        ClusterError: nobody answers there, or it refuses.
    """

    def __init__(self, address: str):
        self.address = address
        with _no_other_address(), self._said():
            from ray.job_submission import JobSubmissionClient

            logging.getLogger("ray").setLevel(logging.WARNING)
            self.client = JobSubmissionClient(address)

    def submit(self, name: str, command: str, folder: Path, variables: dict[str, str], again: bool = True) -> Job:
        """Starts a job NAME-1, or NAME-2 where NAME-1 has ended, and so on; joins one that has not ended.

        Args:
            folder: its working directory.
            variables: of its environment.
            again: whether to start another where one has ended.
        """
        with self._said():
            attempts = {job.submission_id: str(job.status) for job in self.client.list_jobs() if job.submission_id}
            mine = sorted(
                (int(id.rpartition("-")[2]), id)
                for id in attempts
                if id.rpartition("-")[0] == name and id.rpartition("-")[2].isdigit()
            )
            if mine and (not again or status_name(attempts[mine[-1][1]]) not in ENDED):
                return Job(mine[-1][1], joined=True)
            id = f"{name}-{mine[-1][0] + 1 if mine else 1}"
            environment: dict[str, Any] = {"working_dir": str(folder), "env_vars": variables}
            for attempt in range(AGENT_TRIES):
                try:
                    self.client.submit_job(entrypoint=command, submission_id=id, runtime_env=environment)
                    break
                except RuntimeError as error:  # a head that has just started
                    if "No available agent" not in str(error) or attempt == AGENT_TRIES - 1:
                        raise
                    time.sleep(POLL_SECONDS)
            return Job(id, joined=False)

    def status(self, id: str) -> tuple[str, int | None, str]:
        """A job's status, its exit code if it has one, and what Ray says of it."""
        with self._said():
            info = self.client.get_job_info(id)
        return status_name(info.status), info.driver_exit_code, info.message or ""

    def follow(self, id: str, write: Callable[[str], object]) -> str:
        """Passes on a job's log until it has ended, and returns its final status. Where the stream of the log breaks,
        the log is asked for again and again; what has been passed on is not repeated."""
        seen = 0

        def passed(text: str) -> None:
            nonlocal seen
            write(text)
            seen += len(text)

        with suppress(Exception):  # whatever breaks a stream, the log is still there
            asyncio.run(self._stream(id, passed))
        while True:
            status, _, _ = self._patiently(lambda: self.status(id))
            log = self._patiently(lambda: self._log(id))
            if len(log) > seen:
                passed(log[seen:])
            if status in ENDED:
                return status
            time.sleep(POLL_SECONDS)

    def _log(self, id: str) -> str:
        with self._said():
            return self.client.get_job_logs(id)

    async def _stream(self, id: str, write: Callable[[str], object]) -> None:
        async for text in self.client.tail_job_logs(id):
            write(text)

    def _patiently(self, ask: Callable[[], Any], tries: int = 5) -> Any:
        """An answer, asked for again where the connection fails."""
        for attempt in range(tries):
            try:
                return ask()
            except (ConnectionError, OSError, RuntimeError, ClusterError):
                if attempt == tries - 1:
                    raise
                time.sleep(POLL_SECONDS)

    @contextmanager
    def _said(self) -> Iterator[None]:
        from ray.exceptions import RayError

        try:
            yield
        except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            if "401" in reason or "403" in reason or "uthenticat" in str(error) or "token" in str(error).lower():
                reason = f"the cluster wants a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN ({reason})"
            raise ClusterError(f"{self.address}: {reason}") from None


def status_name(status: Any) -> str:
    """A job's status as one word."""
    return str(getattr(status, "value", status)).rpartition(".")[2]


@contextmanager
def _no_other_address() -> Iterator[None]:
    """Hides the variables by which Ray would change an explicit address."""
    hidden = {name: os.environ.pop(name) for name in ADDRESS_VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
