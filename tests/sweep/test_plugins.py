"""A user's own mixer in a study: it trains here and in workers, and editing it makes new trials."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MIXER = """
from models import register_mixer, register_model
from models.mixers.base import Mixer


class Scaled(Mixer):
    def __call__(self, p, x_MBLD, reads):
        return {factor} * x_MBLD.mean(dim=2, keepdim=True)


register_mixer("scaled", "my_mixers:Scaled", heads=False, products=lambda q, k, width, heads: k * width)
register_model("scaled", mixer="scaled")
"""

STUDY = """
title = "mine"
task = "mode"
plugins = ["my_mixers"]
[fixed]
length = 8
width = 8
epochs = 1
steps_per_epoch = 2
eval_samples = 16
[grid]
model = ["scaled", "sum"]
seed = [0, 1, 2]
"""


@pytest.fixture
def sweep(tmp_path):
    """Runs `sweep` in a folder that holds the study and its mixer."""
    (tmp_path / "mine.toml").write_text(STUDY)
    (tmp_path / "my_mixers.py").write_text(MIXER.replace("{factor}", "2.0"))

    def sweep(*arguments: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "sweep", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=200)

    return sweep


def counts(sweep) -> dict:
    return json.loads(sweep("status", "mine.toml", "--json").stdout)


@pytest.mark.parametrize("executor", ["inline", "ray"])
def test_a_study_trains_a_mixer_of_the_working_directory_and_an_edited_one_anew(sweep, tmp_path, executor):
    run = ["run", "mine.toml", "--executor", executor, "--workers", "1" if executor == "inline" else "2"]
    first = sweep(*run)
    assert first.returncode == 0, first.stdout + first.stderr
    assert counts(sweep)["ok"] == 6
    assert "nothing to run" in sweep(*run).stdout
    (tmp_path / "my_mixers.py").write_text(MIXER.replace("{factor}", "3.0"))
    after = counts(sweep)
    assert after["missing"] == 3 and after["ok"] == 3, "those with the mixer that ships are the same trials"


@pytest.mark.parametrize(
    ("text", "said"),
    [("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing'"), ("1/0", "ZeroDivisionError")],
)
def test_a_module_that_cannot_be_imported_is_said_in_a_line(sweep, tmp_path, text, said):
    (tmp_path / "my_mixers.py").write_text(text)
    told = sweep("plan", "mine.toml")
    assert told.returncode == 2 and said in told.stderr and len(told.stderr.splitlines()) == 1
    assert "plugins: cannot import my_mixers from" in told.stderr


def test_it_travels_with_a_submission(sweep):
    shown = sweep("submit", "mine.toml", "--address", "http://127.0.0.1:1", "--dry-run")
    assert shown.returncode == 0 and "run mine.toml" in shown.stdout, shown.stderr
