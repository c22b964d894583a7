"""Rows as a study would leave them: made here, so that no test of `results` needs training."""

import os
from datetime import UTC, datetime, timedelta
from hashlib import md5
from pathlib import Path
from types import SimpleNamespace

import pytest

from results.store import Store

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def identity(**values) -> str:
    return md5(repr(sorted(values.items())).encode()).hexdigest()


def trial_row(seed: int = 0, status: str = "ok", accuracy: float | None = 0.5, attempt: int = 1, **values) -> dict:
    """A finished trial: its id follows from its values, as in a real store."""
    values = {"task": "cases", "model": "nap", "width": 64, "learning_rate": 0.01, "seed": seed} | values
    extra = {name: values.pop(name) for name in ("error", "finished_at", "host", "git_commit", "id") if name in values}
    if status == "failed":
        extra.setdefault("error", "Traceback (most recent call last):\n  …\nRuntimeError: it broke")
    measured = accuracy if status == "ok" else None
    return {
        "id": identity(**values),
        **values,
        "length": 128,
        "eval_length": 64,
        "status": status,
        "final_eval_accuracy": measured,
        "best_eval_accuracy": accuracy,
        "diverged_step": 7 if status == "diverged" else None,
        "wall_seconds": 2.0,
        "device": "cpu",
        "host": "ada",
        "sweep_version": "0.1.0",
        "git_commit": "abc1234",
        "torch_version": "2.9.0",
        "finished_at": START + timedelta(seconds=seed),
        "attempt": attempt,
    } | extra


def curve_rows(trial: dict, epochs: int = 3) -> list[dict]:
    """The learning curve of a trial: `epochs` epochs of one split."""
    return [
        {"id": trial["id"], "attempt": trial["attempt"], "epoch": epoch, "split": "eval", "length": 64, "case": "all",
         "loss": 1.0 / epoch, "correct": epoch, "count": 10}
        for epoch in range(1, epochs + 1)
    ]  # fmt: skip


def append(store: Store, *trials: dict, epochs: int = 3) -> None:
    """Flushes trials with their curves."""
    store.append(list(trials), [row for trial in trials for row in curve_rows(trial, epochs)])


def grid(models, xs, ys, seeds=2, *, x="width", y="learning_rate", outcome=lambda **point: ("ok", 0.5), **fixed):
    """The points of a study and its rows by id; `outcome(model=…, x=…, y=…, seed=…)` is a status and an accuracy,
    or None for a trial that has not run."""
    points, rows = [], {}
    for model in models:
        for x_value in xs:
            for y_value in ys:
                for seed in range(seeds):
                    values = {"model": model, x: x_value, y: y_value, **fixed}
                    found = outcome(model=model, x=x_value, y=y_value, seed=seed)
                    row = trial_row(seed, *(found or ("ok", 0.0)), **values)
                    points.append({"id": row["id"], "seed": seed, **values})
                    if found is not None:
                        rows[row["id"]] = row
    return points, rows


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def unsynced(monkeypatch) -> None:
    """No waiting for the disk, in tests that write hundreds of shards and measure or count."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def make():
    """The helpers above, by name: `make.trial_row(…)`."""
    return SimpleNamespace(trial_row=trial_row, curve_rows=curve_rows, append=append, grid=grid, START=START)
