"""The loop: plan → executor → store, with progress. Running a study runs what is missing."""

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cluster.events import ClusterError, Executor, Failed, Finished, Message, Notice, Returned
from results.store import Store, StoreError
from sweep.errors import InfrastructureError
from sweep.packs import packs_of
from sweep.plan import Plan
from sweep.progress import InTraining, Progress, Tally
from sweep.trial import Trial
from sweep.work import EpochDone, PackDone, Payload, failed_row

UNSAVED_SECONDS = 1.0
"""Finished work is saved at once unless it is less than this and the last save is less long ago: short packs share
files."""

UNSAVED_ROWS = 1000
MOST_DEATHS = 3
"""Worker processes that may die with one trial before it is given up as the cause."""

COMPACT_AT = 64
"""Shards after which a run compacts the store."""


@dataclass(frozen=True)
class Limits:
    """When a run gives up.

    Attributes:
        max_failures: failed trials after which nothing more is started; None: never.
    """

    max_failures: int | None = None


@dataclass
class Outcome:
    """How a run ended.

    Attributes:
        done: trials that got a row.
        failed: of these, failed ones (out of memory included).
        stopped: why it ended before its end: "interrupted", "failures", or None.
        seconds: of wall time.
        errors: the last line of each kind of error, and how many trials it ended.
    """

    done: int
    diverged: int
    failed: int
    stopped: str | None
    seconds: float
    errors: dict[str, int]


@dataclass
class Recorder:
    """Holds finished rows until they are worth a file."""

    store: Store
    rows: list[dict[str, Any]] = field(default_factory=list)
    curves: list[dict[str, Any]] = field(default_factory=list)
    unsaved_seconds: float = 0.0
    last_flush: float = field(default_factory=time.monotonic)
    flushes: int = 0

    def add(self, rows: list[dict[str, Any]], curves: list[dict[str, Any]]) -> None:
        """Takes rows, and saves where enough has come together."""
        self.rows += rows
        self.curves += curves
        self.unsaved_seconds += sum(row.get("wall_seconds") or 0.0 for row in rows)
        waited = time.monotonic() - self.last_flush
        if max(self.unsaved_seconds, waited) >= UNSAVED_SECONDS or len(self.rows) >= UNSAVED_ROWS:
            self.flush()

    def flush(self) -> None:
        """Saves what is held."""
        if not self.rows:
            return
        try:
            self.store.append(self.rows, self.curves)
        except StoreError as error:
            lost = len(self.rows)
            raise InfrastructureError(f"{error}; {lost} finished trials are not saved and will run again") from None
        self.rows, self.curves, self.unsaved_seconds, self.last_flush = [], [], 0.0, time.monotonic()
        self.flushes += 1
        if self.flushes % COMPACT_AT == 0:
            self.tidy()

    def tidy(self) -> None:
        """Merges the shards of a run that made several. Every row is saved already, so that a failure may wait."""
        if self.flushes > 1:
            with suppress(StoreError):
                self.store.compact()


class Stopper:
    """Ctrl-C: the first lets what is in training finish, the second ends the run now."""

    def __init__(self, on_first: Callable[[], None]):
        self.on_first = on_first
        self.asked = False

    def __call__(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self.on_first()


def run(
    plan: Plan,
    store: Store,
    executor: Executor,
    *,
    device: str = "cpu",
    threads: int | None = None,
    compile: str = "auto",
    limits: Limits = Limits(),
    stream: Any = None,
) -> Outcome:
    """Trains what a plan has to run, and saves it.

    A pack that runs out of memory or raises is halved until the trial at fault is alone; that one gets a row as `oom`
    or `failed`, the others are trained.

    Raises:
        InfrastructureError: the store can no longer be written.
    """
    assert plan.packs is not None and plan.to_run is not None
    tally = Tally(len(plan.to_run), sum(trial.cost for trial in plan.to_run))
    progress = Progress(tally, stream)
    session = _Session(plan, executor, Recorder(store), tally, progress, device, threads, compile, limits)
    for pack, ahead in zip(plan.packs, packs_ahead(plan.packs)):
        session.submit(pack, ahead=ahead)
    with progress:
        try:
            with _interrupts(Stopper(session.stop_for_interrupt)), _interrupts(_stop_now, signal.SIGTERM):
                for event in executor.events():
                    session.take(event)
        except KeyboardInterrupt:
            session.stopped = "interrupted"
        except ClusterError as error:
            raise InfrastructureError(str(error)) from None
        finally:
            # neither a third Ctrl-C nor a second SIGTERM must cost what is finished
            with _interrupts(signal.SIG_IGN), _interrupts(signal.SIG_IGN, signal.SIGTERM):
                try:
                    session.recorder.flush()
                finally:
                    executor.close()
    session.recorder.tidy()
    return Outcome(tally.done, tally.diverged, tally.failed, session.stopped, tally.seconds, session.errors)


@dataclass
class _Session:
    plan: Plan
    executor: Executor
    recorder: Recorder
    tally: Tally
    progress: Progress
    device: str
    threads: int | None
    compile: str
    limits: Limits
    stopped: str | None = None
    errors: dict[str, int] = field(default_factory=dict)
    payloads: dict[int, Payload] = field(default_factory=dict)
    deaths: Counter[str] = field(default_factory=Counter)
    """Workers that died, by the trial that they died with."""
    saved: set[int] = field(default_factory=set)
    """Packs in the executor's hands whose rows are here already."""

    def __post_init__(self):
        self.versions = versions()

    def submit(self, pack: list[Trial], urgent: bool = False, ahead: int = 0) -> None:
        attempts = [self.plan.attempts.get(trial.id, 0) + 1 for trial in pack]
        how = (self.device, self.threads, self.versions, self.compile, ahead, self.plan.study.plugins)
        payload = Payload(tuple(pack), tuple(attempts), *how)
        kind = (pack[0].shape, len(pack))
        self.payloads[self.executor.submit(payload, urgent, kind)] = payload

    def take(self, event) -> None:
        """What an executor reports, into tally and store."""
        if isinstance(event, Notice):
            self.progress.say(event.text)
            return
        payload = self.payloads[event.ticket]
        if isinstance(event, Returned):
            self.tally.training.pop(event.ticket, None)
        elif isinstance(event, Message) and isinstance(event.content, EpochDone):
            pack = self.tally.training.setdefault(event.ticket, in_training(payload))
            pack.epoch, pack.epochs, pack.diverged = event.content.epoch, event.content.epochs, event.content.diverged
        elif isinstance(event, Message) and isinstance(event.content, PackDone):
            if event.ticket not in self.saved:
                self.saved.add(event.ticket)
                self._recorded(payload, event.content.rows, event.content.curves)
        elif isinstance(event, Finished):
            self._forget(event.ticket)
            self.saved.discard(event.ticket)
        elif isinstance(event, Failed):
            self._forget(event.ticket)
            self._failed(payload, event)
        self.progress.changed()

    def stop_for_interrupt(self) -> None:
        """The first Ctrl-C."""
        self.stopped = "interrupted"
        self.executor.drain()
        waiting = sum(pack.trials for pack in self.tally.training.values())
        if waiting:
            self.progress.say(f"stopping: waiting for {waiting} trials in training (Ctrl-C again to stop now)")
        else:
            self.progress.say("stopping (Ctrl-C again to stop now)")

    def _forget(self, ticket: int) -> None:
        del self.payloads[ticket]
        self.tally.training.pop(ticket, None)

    def _failed(self, payload: Payload, event: Failed) -> None:
        if event.kind == "died" and (event.ticket in self.saved or self._tried_again(payload)):
            return
        if len(payload.trials) > 1 and self.stopped is None:
            for half in packs_of(payload.trials, -(-len(payload.trials) // 2)):
                self.submit(half, urgent=True)  # so that what is wrong is known soon
            if event.kind == "oom":
                self.progress.say(f"out of memory: a pack of {len(payload.trials)} trials is halved")
            return
        if len(payload.trials) > 1:  # stopping: none of them has a row, and a later run finds the one at fault
            return
        status = "oom" if event.kind == "oom" else "failed"
        if event.kind == "died":
            event = replace(
                event, error=f"poison: {MOST_DEATHS} worker processes died with this trial alone\n{event.error}"
            )
        kind = event.error.strip().splitlines()[-1] if event.error.strip() else status
        self.errors[kind] = self.errors.get(kind, 0) + 1
        self._recorded(payload, [failed_row(payload, status, event.error)], [])
        allowed = self.limits.max_failures
        if allowed is not None and self.tally.failed >= allowed and self.stopped is None:
            self.stopped = "failures"
            self.executor.drain()

    def _tried_again(self, payload: Payload) -> bool:
        """What becomes of a pack whose worker died. It need not be the pack's fault, so it is tried once more before it
        is halved; a trial alone is given up at the third time. Returns whether it is tried again (or left to a later
        run)."""
        ids = [trial.id for trial in payload.trials]
        self.deaths.update(ids)
        most = MOST_DEATHS if len(ids) == 1 else 2
        if self.stopped is None and self.deaths[ids[0]] < most:
            self.progress.say(f"a worker process died with {named(payload)}: trying again")
            self.submit(list(payload.trials), urgent=True)
            return True
        if len(ids) > 1:
            self.progress.say(f"two worker processes died with {named(payload)}: trying halves")
            for id in ids:
                del self.deaths[id]
        return self.stopped is not None

    def _recorded(self, payload: Payload, rows: list[dict[str, Any]], curves: list[dict[str, Any]]) -> None:
        self.tally.cost_done += sum(trial.cost for trial in payload.trials)
        for row in rows:
            self.tally.done += 1
            self.tally.diverged += row["status"] == "diverged"
            self.tally.failed += row["status"] in ("failed", "oom")
        self.recorder.add(rows, curves)


def named(payload: Payload) -> str:
    """A pack in words."""
    count = len(payload.trials)
    return f"{count} trials" if count > 1 else "a trial"


def packs_ahead(packs: list[list[Trial]]) -> list[int]:
    """For each pack, how many of its shape and width come after it."""
    ahead: Counter[tuple] = Counter()
    counts = []
    for pack in reversed(packs):
        key = (pack[0].shape, len(pack))
        counts.append(ahead[key])
        ahead[key] += 1
    return counts[::-1]


def in_training(payload: Payload) -> InTraining:
    """A pack as progress shows it."""
    first, trials = payload.trials[0], payload.trials
    name = f"{first.model} width {first.width}"
    return InTraining(name, len(trials), sum(trial.cost for trial in trials))


def versions() -> dict[str, str | None]:
    """The project's version and the commit of the checkout it runs from, if it does."""
    try:
        installed = version("mixer-sweep")
    except PackageNotFoundError:
        installed = "not installed"
    commit = git_commit(Path(__file__).parent) or os.environ.get("SWEEP_GIT_COMMIT")  # a submitted run has no checkout
    return {"sweep_version": installed, "git_commit": commit}


def git_commit(folder: Path) -> str | None:
    """The commit of the checkout that holds `folder`, with "+changes" where files differ from it; None without one."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != folder.parent.resolve():
            return None  # installed into somebody else's repository
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return None


@contextmanager
def _interrupts(handler: Any, number: int = signal.SIGINT) -> Iterator[None]:
    """A signal (Ctrl-C) goes to `handler`, where this thread may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _stop_now(*_: object) -> None:
    """SIGTERM, by which clusters end a job: no time to finish a pack, but enough to save what is finished."""
    raise KeyboardInterrupt
