"""The README's three steps to a task, followed."""

from pathlib import Path

from sweep import Study
from sweep.train import train
from tests.readme import code_blocks

README = Path(__file__).parents[2] / "tasks" / "README.md"


def test_a_task_made_by_the_readme_trains(tmp_path, monkeypatch):
    file, register = code_blocks(README)
    (tmp_path / "my_tasks.py").write_text(file + "\n\n" + register)
    monkeypatch.syspath_prepend(tmp_path)
    import my_tasks  # noqa: F401

    study = Study(
        "toy",
        'title = "toy"\ntask = "last"\n[fixed]\nlength = 4\nwidth = 16\nepochs = 8\nbatch_size = 16\n'
        'steps_per_epoch = 60\nvocabulary = 4\n[grid]\nmodel = ["mte"]\nlearning_rate = [0.01]\n',
    )
    last = list(train(list(study.trials())))[-1].measurements[0][-1]
    assert last.correct / last.count > 0.9, "a task that can be learned is learned"
