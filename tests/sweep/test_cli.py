"""The command: what it says, how it exits, and what it survives."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from results.schema import TRIALS, VERSION_KEY
from results.store import Store
from sweep import Study
from tests.sweep.conftest import TINY, here

ROOT = Path(__file__).parents[2]

SLOW = TINY.replace("steps_per_epoch = 3", "steps_per_epoch = 80").replace("count = 2", "count = 8")


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    """Starts the command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "sweep", *here(arguments)]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_for_rows(store: Path, count: int) -> None:
    """Until the store has so many trials."""
    deadline = time.monotonic() + 60
    while len(Store(store).outcomes()) < count:
        assert time.monotonic() < deadline, "nothing came into the store"
        time.sleep(0.05)


def test_plan_run_status_report_from_nothing(folder, sweep):
    code, out, _ = sweep("plan", "tiny.toml")
    assert code == 0 and "2 models × 2 learning rates × 2 seeds = 8" in out and "to run: 8 trials" in out
    assert [path.name for path in folder.iterdir()] == ["tiny.toml"], "a plan writes nothing"
    code, out, _ = sweep("run", "tiny.toml")
    assert code == 0 and "8 trials" in out and "sweep report" in out
    code, out, _ = sweep("run", "tiny.toml")
    assert code == 0 and "nothing to run: all 8 trials of tiny are in store (8 ok, 0 missing)" in out
    code, out, _ = sweep("status", "tiny.toml")
    assert code == 0 and out == "tiny: 8 trials in store: 8 ok, 0 missing\n"
    code, out, _ = sweep("report", "tiny.toml")
    page = Path(out.strip())
    assert page == Path("reports/tiny/index.html")
    assert "http://" not in page.read_text().replace("http://www.w3.org", "") and "<svg" not in out
    assert {path.suffix for path in Path("reports/tiny/figures").iterdir()} == {".png", ".svg"}


def test_json_for_machines(folder, sweep):
    _, out, _ = sweep("plan", "tiny.toml", "--json")
    plan = json.loads(out)
    expected = {"study": "tiny", "trials": 8, "ok": 0, "diverged": 0, "failed": 0, "oom": 0, "missing": 8, "packs": 2}
    assert {key: plan[key] for key in expected} == expected
    assert plan["estimate_seconds"] is None and plan["estimate_basis"].startswith("none")
    sweep("run", "tiny.toml", "--set", "seed=0")
    _, out, _ = sweep("status", "tiny.toml", "--json")
    assert json.loads(out) == {
        "study": "tiny", "trials": 8, "ok": 4, "diverged": 0, "failed": 0, "oom": 0, "missing": 4,
        "problems": [],
    }  # fmt: skip
    _, out, _ = sweep("plan", "tiny.toml", "--json")
    assert json.loads(out)["estimate_seconds"] > 0


def test_the_python_interface(folder):
    study = Study.load("tiny.toml")
    assert len(study) == 8 and next(study.trials()).id == next(study.trials()).id
    assert Store("store").trials().num_rows == 0


NEWER = TRIALS.with_metadata({VERSION_KEY: b"99"})


def newer_store(folder: Path) -> None:
    import pyarrow.parquet as pq

    for kind in ("trials", "curves"):
        (folder / "newer" / kind).mkdir(parents=True)
        pq.write_table(NEWER.empty_table(), folder / "newer" / kind / "a.parquet")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["plan", "quikstart"], "did you mean quickstart"),
        (["run", "absent.toml"], "cannot read study absent.toml: no such file"),
        (["run", "tiny.toml", "--set", "widht=8"], "did you mean width"),
        (["run", "tiny.toml", "--set", "model=nop"], "did you mean"),
        (["run", "tiny.toml", "--set", "task=mod"], "did you mean mode"),
        (["run", "tiny.toml", "--set", "learning_rate=fast"], "must be a number"),
        (["run", "tiny.toml", "--set", "width=[]"], "width is empty"),
        (["run", "tiny.toml", "--set", "width=9"], "4 heads do not divide it"),
        (["run", "tiny.toml", "--set", "task=cases", "--set", "vocabulary=50"], "no token 64"),
        (["run", "tiny.toml", "--set", "length=1"], "at least 2 tokens"),
        (["run", "broken.toml"], "line 2"),
        (["run", "axis.toml"], 'figure.x: unknown axis "depth"'),
        (["run", "twice.toml"], "line 4: width is set twice"),
        (["run", "tiny.toml", "--store", "tiny.toml"], "tiny.toml is not a folder"),
        (["run", "tiny.toml", "--store", "tiny.toml/store"], "the store tiny.toml/store is not a folder"),
        (["run", "tiny.toml", "--store", "newer"], "newer version"),
        (["plan", "tiny.toml", "--store", "newer"], "newer version"),
        (["run", "tiny.toml", "--set", "seed={count=1073741824}"], "--max-trials"),
        (["run", "tiny.toml", "--device", "gpu"], "auto, cpu, cuda, mps"),
        (["run", "tiny.toml", "--max-failures", "0"], "greater than or equal to 1"),
        (["run", "tiny.toml", "--bogus"], "--bogus"),
        (["nonsense"], "nonsense"),
    ],
)
def test_bad_input_gets_one_clear_line_and_leaves_no_trace(folder, sweep, arguments, says):
    (folder / "broken.toml").write_text('title = "t"\ntask = mode"\n')
    (folder / "twice.toml").write_text('title = "t"\n[grid]\nwidth = [8]\nwidth = [9]\n')
    (folder / "axis.toml").write_text(TINY + '[figure]\nx = "depth"\n')
    newer_store(folder)
    before = sorted(folder.rglob("*"))
    code, out, error = sweep(*arguments)
    assert code == 2 and out == ""
    assert says in error and "Traceback" not in error
    if error.startswith("sweep: "):
        assert error.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_a_failing_trial_is_an_exit_code_of_1_and_said(folder, sweep, monkeypatch):
    def fails(payload):
        raise ArithmeticError("a bug")
        yield

    monkeypatch.setattr("sweep.work.train_pack", fails)
    code, out, error = sweep("run", "tiny.toml")
    assert code == 1 and "8 failed" in out and "8 × ArithmeticError: a bug" in error
    code, out, _ = sweep("status", "tiny.toml")
    assert code == 0 and "8 failed" in out
    code, out, error = sweep("run", "tiny.toml", "--retry-failed", "--fail-fast")
    assert code == 1 and "stopped after 1 failed; 7 trials not run" in error
    monkeypatch.undo()
    code, out, _ = sweep("run", str(folder / "tiny.toml"), "--retry-failed", "--store", str(folder / "store"))
    assert code == 0 and "8 trials" in out


def test_a_report_of_nothing_says_so(folder, sweep):
    code, _, _ = sweep("report", "tiny.toml", "--out", "page")
    assert code == 0
    text = Path("page/index.html").read_text()
    assert "no trial" in text.lower()


def test_killed_at_any_moment_running_again_finishes_with_every_trial_once(folder):
    (folder / "slow.toml").write_text(SLOW)
    store = folder / "store"
    for rows in (1, 12):
        running = start(folder, "run", "slow.toml", "--pack-width", "2", "--threads", "1")
        wait_for_rows(store, rows)
        running.kill()
        running.wait()
        assert len(Store(store).outcomes()) < 32
    kept = set(Store(store).outcomes())
    done = start(folder, "run", "slow.toml", "--pack-width", "4", "--threads", "1")
    output, _ = done.communicate(timeout=120)
    assert done.returncode == 0 and f"running {32 - len(kept)} trials" in output
    trials = Store(store).trials()
    assert sorted(trials["id"].to_pylist()) == sorted(trial.id for trial in Study.load(folder / "slow.toml").trials())
    assert len(Store(store).curves()) == 32 * 2 * 2, "every trial has its whole curve, once"


def test_the_first_interrupt_finishes_what_is_in_training_and_says_how_to_go_on(folder):
    (folder / "slow.toml").write_text(SLOW)
    running = start(folder, "run", "slow.toml", "--pack-width", "2", "--threads", "1")
    wait_for_rows(folder / "store", 1)
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Ctrl-C again to stop now" in output
    assert "interrupted" in output and "To go on: sweep run slow.toml --pack-width 2" in output
    rows = len(Store(folder / "store").outcomes())
    assert 0 < rows < 32 and rows % 2 == 0


def test_the_second_interrupt_stops_now_and_keeps_what_was_finished(folder):
    (folder / "long.toml").write_text(SLOW.replace("steps_per_epoch = 80", "steps_per_epoch = 100000"))
    (folder / "both.toml").write_text(SLOW)
    running = start(folder, "run", "both.toml", "--set", "seed=0", "--threads", "1")
    running.communicate(timeout=60)
    before = len(Store(folder / "store").outcomes())
    running = start(folder, "run", "long.toml", "--threads", "1")
    assert running.stdout is not None
    while "running 32 trials" not in running.stdout.readline():
        assert running.poll() is None
    time.sleep(3)  # it says so, and then loads torch
    running.send_signal(signal.SIGINT)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    started = time.monotonic()
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 130 and time.monotonic() - started < 30
    assert "32 trials left" in output
    assert len(Store(folder / "store").outcomes()) == before == 4


def test_a_terminated_run_saves_what_is_finished_and_ends_at_once(folder):
    (folder / "slow.toml").write_text(SLOW)
    running = start(folder, "run", "slow.toml", "--pack-width", "2", "--threads", "1")
    wait_for_rows(folder / "store", 1)
    running.terminate()
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 130 and "To go on" in output
    assert 0 < len(Store(folder / "store").outcomes()) < 32


def test_a_run_goes_on_when_nobody_reads_what_it_prints(folder):
    running = start(folder, "run", "tiny.toml")
    running.stdout.close()
    running.wait(timeout=60)
    assert len(Store(folder / "store").outcomes()) == 8


@pytest.mark.parametrize("arguments", [["list"], ["plan", "quickstart"], ["plan", "quickstart", "--json"]])
def test_nobody_reading_on_is_no_failure(folder, arguments):
    running = start(folder, *arguments)
    running.stdout.close()
    assert running.wait(timeout=30) == 0


def test_without_a_terminal_progress_is_plain_lines(folder):
    done = start(folder, "run", "tiny.toml")
    output, _ = done.communicate(timeout=60)
    assert done.returncode == 0 and "\x1b" not in output


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["plan", "paper/mode-width"], ["status", "quickstart"]])
def test_light_commands_run_from_a_checkout_that_is_not_installed(folder, arguments):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, str(ROOT / "sweep" / "__main__.py"), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
