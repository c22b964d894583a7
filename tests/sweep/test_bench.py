"""What `sweep bench` measures, and that it is what `sweep plan` estimates with."""

import json
import sys

import pytest

from results.store import Store
from sweep import bench
from sweep.cli import main
from sweep.estimate import calibrated_rates
from sweep.plan import make_plan
from sweep.study import Study


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(bench, "ROUNDS", {"cpu": 2})
    monkeypatch.setattr(bench, "LENGTHS", [])


def test_a_calibration_is_the_basis_of_an_estimate(tmp_path):
    study = Study.load("paper/mode-width", ["model=nap", "width=16", "learning_rate=0.001", "seed=0"])
    assert calibrated_rates() == []
    assert make_plan(study, Store(tmp_path / "store")).estimate.seconds is None
    nap, total = (bench.reached({"task": "mode", "width": 16, "model": model}, "cpu", 2) for model in ("nap", "sum"))
    bench.save_calibration([nap, total])
    estimate = make_plan(study, Store(tmp_path / "store")).estimate
    assert estimate.basis.startswith("this machine's calibration")
    (trial,) = study.trials()
    assert estimate.seconds == pytest.approx(3200 * nap.seconds * trial.cost / trial.training_cost), (
        "evaluation costs too"
    )


def test_a_broken_calibration_is_none(tmp_path):
    (tmp_path / "cache" / "sweep").mkdir(parents=True)
    (tmp_path / "cache" / "sweep" / "calibration.json").write_text("{}")
    assert calibrated_rates() == []


@pytest.mark.parametrize("model", ["nap", "bert", "max"])
def test_packed_and_plain_steps_are_measured_in_one_run(model):
    measured = bench.reached({"task": "cases", "width": 16, "model": model}, "cpu", 2)
    assert measured.seconds > 0 and measured.plain_seconds > 0
    assert measured.speedup == measured.plain_seconds / measured.seconds


def test_the_command_prints_one_object_for_machines(monkeypatch, capsys):
    monkeypatch.setattr(bench, "SHAPES", [{"task": "mode", "width": 16, "model": "sum"}])
    monkeypatch.setattr(sys, "argv", ["sweep", "bench", "--threads", "1", "--json"])
    with pytest.raises(SystemExit) as exit:
        main()
    said = json.loads(capsys.readouterr().out)
    assert not exit.value.code
    assert said["ceilings"]["matrix_flops"] > 1e9 and said["ceilings"]["copy_bytes"] > 1e8
    assert [shape["model"] for shape in said["shapes"]] == ["sum"] and said["shapes"][0]["speedup"] > 0
