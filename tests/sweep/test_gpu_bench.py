"""The GPU's benchmark at toy size, on a machine that has nothing but torch and numpy."""

import json
import os
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "gpu.py"
ABSENT = ("pyarrow", "pydantic", "typer", "rich", "jinja2", "matplotlib", "optuna", "ray")


def test_it_runs_at_toy_size_with_torch_and_numpy_alone(tmp_path):
    for name in ABSENT:
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is not there')\n")
    figures = tmp_path / "figures.json"
    command = [sys.executable, str(BENCHMARK), "--device", "cpu", "--toy", "--json", str(figures)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    measured = json.loads(figures.read_text())
    assert measured["equal"] and measured["paper"]["models"] > 5000
    kinds = {(each["model"], each["kind"], each["pack"]) for each in measured["speeds"]}
    assert {("nap", "eager", 1), ("nap", "eager", 4), ("sum", "compiled", 1)} <= kinds
    assert all(each["seconds"] > 0 and each["plain"] > 0 for each in measured["speeds"])
    assert "warning" not in done.stderr


def test_without_a_gpu_it_says_so():
    import torch

    if torch.cuda.is_available():
        return
    done = subprocess.run([sys.executable, str(BENCHMARK)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "no CUDA device" in done.stderr
