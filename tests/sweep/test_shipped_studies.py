"""Studies and tasks as they ship, trained at toy size."""

import math
from pathlib import Path

import pytest

from models import MIXERS, MODELS
from results.store import Store
from sweep.study import Study
from sweep.train import train
from sweep.trial import Trial


def test_every_axis_of_the_paper_and_every_model_trains_and_is_reported(folder, sweep):
    study = Study.load("paper/tiny")
    papers = {"width", "depth", "heads", "length", "batch_size", "vocabulary", "case_bias", "dropout", "weight_decay",
              "init_scale", "schedule", "clip_norm", "norm_placement", "mix_activation", "learning_rate"}  # fmt: skip
    trials = list(study.trials())
    assert {point["model"] for point, _ in study.points()} == set(MODELS)
    assert all(len({getattr(trial, name) for trial in trials} - {None}) > 1 for name in papers)
    code, out, _ = sweep("run", "paper/tiny")
    assert code == 0 and f"{len(trials)} ok" in out
    rows = Store("store").trials().to_pylist()
    assert {row["dropout"] for row in rows} == {0.0, 0.5, 0.0625} and {row["mixer"] for row in rows} == set(MIXERS)
    code, out, _ = sweep("report", "paper/tiny")
    assert code == 0 and Path("reports/paper/tiny/index.html").exists()


@pytest.mark.parametrize("model", MODELS)
def test_at_depth_1_parity_stays_at_chance(model):
    """What is above chance here leaks: no layer can compute the parity of 64 bits so soon."""
    values = dict(length=64, width=16, depth=1, batch_size=8, epochs=2, steps_per_epoch=50, eval_samples=2048)
    some = [
        Trial.from_values({"task": "parity", "model": model, "learning_rate": rate, "seed": seed, **values})
        for rate in (0.01, 0.002)
        for seed in (0, 1)
    ]
    *_, last = train(some)
    for record in last.measurements:
        assert abs(record[1].correct / record[1].count - 0.5) < 5 * 0.5 / math.sqrt(2048)
