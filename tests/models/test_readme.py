"""The README's three steps to a mixer, followed."""

from pathlib import Path

import models
from sweep import Study
from sweep.train import train
from tests.readme import code_blocks

README = Path(__file__).parents[2] / "models" / "README.md"


def test_a_mixer_made_by_the_readme_trains_in_a_study(tmp_path, monkeypatch):
    file, register = code_blocks(README)
    (tmp_path / "my_mixers.py").write_text(file)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(models.MIXERS, "gained_mean", raising=False)  # and so again when the test is over
    monkeypatch.delitem(models.MODELS, "gained_mean", raising=False)
    exec(register, {})
    study = Study(
        "toy",
        'title = "toy"\ntask = "mode"\n[fixed]\nlength = 8\nwidth = 16\nepochs = 4\nsteps_per_epoch = 50\n'
        "vocabulary = 3\n"
        '[grid]\nmodel = ["gained_mean"]\nlearning_rate = [0.003, 0.01]\n',
    )
    trials = list(study.trials())
    last = list(train(trials))[-1].measurements
    assert [trial.model for trial in trials] == ["gained_mean"] * 2
    assert max(m[-1].correct / m[-1].count for m in last) > 0.7, "the mean of the tokens tells the most frequent"
