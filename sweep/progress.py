"""What a person sees of a run: a live line on a terminal, a plain line every some seconds elsewhere."""

import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from results.words import counted, duration

PLAIN_INTERVAL = 10.0
"""Seconds between plain lines."""

BAR_CELLS = 24


@dataclass
class Tally:
    """Where a run stands. Costs are in operations, so that an ETA is not fooled by cheap trials that come first.

    Attributes:
        total: trials to run in this session.
        cost: of all of them.
    """

    total: int
    cost: float
    done: int = 0
    diverged: int = 0
    failed: int = 0
    cost_done: float = 0.0
    started: float = field(default_factory=time.monotonic)
    training: dict[int, "InTraining"] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Since the session began."""
        return time.monotonic() - self.started

    @property
    def cost_share(self) -> float:
        """Share of the session's work that is done, packs in training included."""
        partial = sum(pack.cost * pack.epoch / pack.epochs for pack in self.training.values() if pack.epochs)
        return min((self.cost_done + partial) / self.cost, 1.0) if self.cost else 0.0

    @property
    def eta(self) -> float | None:
        """Seconds until the end, from this session's work alone; None before anything is known."""
        share = self.cost_share
        return self.seconds * (1 - share) / share if share > 0 else None

    def line(self) -> str:
        """The state in one line."""
        parts = [f"{self.done:,}/{self.total:,} trials"]
        parts += [f"{self.diverged:,} diverged"] if self.diverged else []
        parts += [f"{self.failed:,} failed"] if self.failed else []
        if self.seconds > 0 and self.done:
            parts.append(rate(self.done / self.seconds))
        if self.done < self.total:
            parts.append("ETA " + (duration(self.eta) if self.eta is not None else "unknown"))
            parts += [pack.line() for pack in list(self.training.values())[:1]]
            if len(self.training) > 1:
                parts.append(f"and {counted(len(self.training) - 1, 'more pack')} in training")
        return " · ".join(parts)


@dataclass
class InTraining:
    """A pack in training."""

    name: str
    trials: int
    cost: float
    epoch: int = 0
    epochs: int = 0
    diverged: int = 0

    def line(self) -> str:
        """The pack in a few words."""
        epochs = f", epoch {self.epoch}/{self.epochs}" if self.epochs else ""
        diverged = f", {self.diverged} diverged" if self.diverged else ""
        return f"{self.name} ({self.trials} trials{epochs}{diverged})"


class Progress:
    """Shows a tally while a run goes on; a context manager."""

    def __init__(self, tally: Tally, stream: IO[str] | None = None):
        self.tally = tally
        self.console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self.live = Live(get_renderable=self._rendered, console=self.console, refresh_per_second=4, transient=True)
        self.last_line = time.monotonic()

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live.is_started:
            self.live.stop()

    def changed(self) -> None:
        """To be called when the tally has changed: prints a plain line where it is time for one."""
        if not self.console.is_terminal and time.monotonic() - self.last_line >= PLAIN_INTERVAL:
            self.say(self.tally.line())
            self.last_line = time.monotonic()

    def say(self, text: str) -> None:
        """Prints a line of its own."""
        with suppress(OSError):  # a run goes on when nobody reads it any more
            self.console.print(text, markup=False)

    def _rendered(self) -> Table:
        filled = round(self.tally.cost_share * BAR_CELLS)
        bar = Text("━" * filled, style="green") + Text("━" * (BAR_CELLS - filled), style="bright_black")
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True, min_width=BAR_CELLS)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        grid.add_row(bar, self.tally.line())
        return grid


def rate(per_second: float) -> str:
    """Trials per second, or per hour where that is less than one."""
    return f"{per_second:.3g} trials/s" if per_second >= 1 else f"{per_second * 3600:,.0f} trials/h"
