"""The command, run in this process."""

import signal
import sys

import pytest

from sweep.cli import main

TINY = """
title = "tiny"
task = "mode"
[fixed]
length = 8
width = 8
epochs = 2
steps_per_epoch = 3
eval_samples = 8
[grid]
model = ["nap", "sum"]
learning_rate = [0.01, 0.001]
seed = { count = 2 }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder with a tiny study in it."""
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def here(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The command, its runs in the process itself; what Ray's workers do is tested elsewhere."""
    return (*arguments, "--executor", "inline") if arguments[:1] == ("run",) else arguments


@pytest.fixture
def sweep(monkeypatch, capsys):
    """Runs the command in this process: exit code, standard output, standard error."""
    handler = signal.getsignal(signal.SIGINT)

    def command(*arguments: str) -> tuple[int, str, str]:
        arguments = here(arguments)
        monkeypatch.setattr(sys, "argv", ["sweep", *arguments])
        try:
            main()
            code = 0
        except SystemExit as exit:
            code = exit.code or 0
        finally:
            signal.signal(signal.SIGINT, handler)
        return code, *capsys.readouterr()

    return command
