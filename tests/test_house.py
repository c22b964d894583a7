"""The house's rules: who imports whom, and what a light command does not load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("sweep", "tasks", "models", "cluster", "results")


def imported(package: str) -> set[str]:
    """Top-level names that any file of a package imports, wherever in the file."""
    names = set()
    for file in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("package", [package for package in PACKAGES if package != "sweep"])
def test_only_sweep_imports_the_other_packages(package):
    assert not imported(package) & (set(PACKAGES) - {package})


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("tasks", {"torch", "pyarrow", "matplotlib", "ray"}),
        ("models", {"pyarrow", "matplotlib", "ray"}),
        ("results", {"torch", "ray", "pandas"}),
        ("cluster", {"torch", "pyarrow", "matplotlib", "numpy"}),
    ],
)
def test_a_package_keeps_to_its_libraries(package, forbidden):
    assert not imported(package) & forbidden


def loaded_by(code: str, names: set[str]) -> set[str]:
    """Which of the modules `names` a fresh interpreter has loaded after `code`."""
    code += f"\nimport sys\nprint('LOADED', *sorted({names!r} & set(sys.modules)))\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "arguments", [["--help"], ["list"], ["plan", "quickstart"], ["status", "quickstart"], ["plan", "paper/mode-width"]]
)
def test_light_commands_load_neither_torch_nor_ray_nor_optuna(arguments):
    code = (
        "import sys\n"
        f"sys.argv = ['sweep', *{arguments!r}]\n"
        "from sweep.cli import main\n"
        "try:\n    main()\nexcept SystemExit as exit:\n    assert not exit.code, exit.code\n"
    )
    assert loaded_by(code, {"torch", "ray", "optuna", "matplotlib"}) == set()


def test_the_training_path_imports_only_torch_and_numpy():
    others = {"pyarrow", "matplotlib", "ray", "optuna", "rich", "typer", "jinja2", "pydantic"}
    assert loaded_by("import sweep.train", {*others, "torch"}) == {"torch"}


def test_the_command_and_the_plan_agree_on_the_most_trials():
    from sweep import cli, plan

    assert cli.MOST_TRIALS == plan.MOST_TRIALS
