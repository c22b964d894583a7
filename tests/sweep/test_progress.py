"""What a person sees of a run."""

import io
import time

import pytest

from results.words import duration
from sweep import progress
from sweep.progress import InTraining, Progress, Tally, rate


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "less than a second"),
        (42.4, "42 s"),
        (200, "3 min 20 s"),
        (5 * 3600 + 600, "5 h 10 min"),
        (86400 + 4 * 3600, "1 day 4 h"),
        (3 * 86400, "3 days 0 h"),
    ],
)
def test_durations_are_said_as_people_do(seconds, said):
    assert duration(seconds) == said


def test_rates_below_one_a_second_are_said_by_the_hour():
    assert rate(12.345) == "12.3 trials/s" and rate(0.01) == "36 trials/h"


def test_the_eta_comes_from_the_work_done_not_from_the_number_of_trials():
    tally = Tally(total=10, cost=100.0, started=time.monotonic() - 30)
    assert tally.eta is None
    tally.done, tally.cost_done = 1, 50.0  # one trial, half of the work
    assert tally.eta == pytest.approx(30, rel=0.01)
    tally.training[1] = InTraining("nap width 8", trials=3, cost=40.0, epoch=2, epochs=8)
    assert tally.eta == pytest.approx(30 * 0.4 / 0.6, rel=0.01), "packs in training count by their epochs"


def test_a_line_says_what_is_done_diverged_failed_and_in_training():
    tally = Tally(total=2400, cost=1.0, done=1200, diverged=3, failed=1, cost_done=0.5, started=time.monotonic() - 60)
    tally.training = {i: InTraining("nap width 8", 8, 0.0, epoch=3, epochs=32, diverged=2) for i in range(2)}
    assert tally.line() == (
        "1,200/2,400 trials · 3 diverged · 1 failed · 20 trials/s · ETA 1 min 0 s · "
        "nap width 8 (8 trials, epoch 3/32, 2 diverged) · and 1 more pack in training"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_elsewhere_than_on_a_terminal_a_plain_line_comes_every_some_seconds(monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_INTERVAL", 0.0)
    out = io.StringIO()
    with Progress(Tally(total=2, cost=1.0, done=1, cost_done=0.5), out) as shown:
        shown.changed()
        monkeypatch.setattr(progress, "PLAIN_INTERVAL", 60.0)
        shown.changed()
    assert out.getvalue().count("\n") == 1 and out.getvalue().startswith("1/2 trials") and "\x1b" not in out.getvalue()


def test_on_a_terminal_there_is_one_live_line_that_goes_away(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    with Progress(Tally(total=2, cost=1.0, done=1, cost_done=0.5), out) as shown:
        shown.changed()
        shown.live.refresh()
    text = out.getvalue()
    assert "1/2 trials" in text and "━" in text and "\x1b[2K" in text
