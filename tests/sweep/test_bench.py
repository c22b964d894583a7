"""What `sweep bench` measures is what `sweep plan` estimates with."""

import pytest

from results.store import Store
from sweep import bench
from sweep.estimate import calibrated_rates
from sweep.plan import make_plan
from sweep.study import Study


@pytest.fixture
def small_bench(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(bench, "SHAPES", [("mode", 16, "nap"), ("mode", 16, "sum")])


def test_a_calibration_is_the_basis_of_an_estimate(small_bench, tmp_path):
    study = Study.load("paper/mode-width", ["model=nap", "width=16", "learning_rate=0.001", "seed=0"])
    assert calibrated_rates() == []
    assert make_plan(study, Store(tmp_path / "store")).estimate.seconds is None
    measured = bench.bench("cpu", 1)
    bench.save_calibration(measured)
    estimate = make_plan(study, Store(tmp_path / "store")).estimate
    assert estimate.basis.startswith("this machine's calibration")
    nap = next(entry for entry in measured if entry["model"] == "nap")
    (trial,) = study.trials()
    training = 3200 * nap["seconds_per_step"]
    assert estimate.seconds == pytest.approx(training * trial.cost / trial.train_flops), "evaluation costs too"


def test_a_broken_calibration_is_none(small_bench, tmp_path):
    (tmp_path / "cache" / "sweep").mkdir(parents=True)
    (tmp_path / "cache" / "sweep" / "calibration.json").write_text("{}")
    assert calibrated_rates() == []
