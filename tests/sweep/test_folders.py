"""A folder of studies: their union, what they share once, and what it costs."""

import json
from pathlib import Path

import pytest

from sweep.folders import studies_in
from sweep.study import Study, study_names
from tests.sweep.conftest import TINY


@pytest.fixture
def two(folder):
    """A folder with two studies that share half of their trials."""
    Path("mine").mkdir()
    Path("mine/one.toml").write_text(TINY)
    Path("mine/two.toml").write_text(TINY.replace("[0.01, 0.001]", "[0.001, 0.0001]"))
    return folder


def test_a_folder_is_counted_with_what_its_studies_share_once(two, sweep):
    code, out, _ = sweep("plan", "mine")
    assert code == 0 and "together 16 trials, 12 different" in out and "0 ok, 12 missing" in out
    assert sweep("run", "mine/one.toml")[0] == 0
    code, out, _ = sweep("plan", "mine", "--json")
    plan = json.loads(out)
    assert (plan["points"], plan["trials"], plan["ok"], plan["missing"]) == (16, 12, 8, 4)
    assert plan["studies"] == {"one": 8, "two": 8}
    assert plan["estimate_seconds"] > 0 and plan["gpu_seconds"] > 0


def test_the_papers_folder_has_every_sweep_that_ships(folder, sweep):
    # all but paper/tiny
    assert len(studies_in("paper")) == sum(name.startswith("paper/") for name in study_names()) - 1 >= 20
    code, out, _ = sweep("plan", "paper")
    assert code == 0 and "paper/cases-first-depth" in out and " different" in out and "of one H200, about" in out


@pytest.mark.parametrize("name", study_names())
def test_every_study_that_ships_can_be_expanded(name):
    study = Study.load(name)
    first, *_ = study.trials()
    assert study.size > 0 and first in study and study.x is not None and study.y == "learning_rate"


def test_an_empty_folder_is_said_to_be_one(folder, sweep):
    Path("empty").mkdir()
    code, _, error = sweep("plan", "empty")
    assert code == 2 and "empty" in error
