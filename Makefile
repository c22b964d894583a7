# Everything runs in .venv with the pinned set of constraints.txt. PYTHON chooses the interpreter that makes it (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests that start clusters have the machine for themselves.
CLUSTERS := tests/cluster/test_ray_pool.py tests/cluster/test_submit.py tests/sweep/test_ray_run.py tests/sweep/test_plugins.py

.PHONY: quickstart env test lint faults fidelity bench bench-overhead bench-throughput bench-workers bench-report bench-generators bench-gpu clean

quickstart: env  ## train the study `quickstart` and write its report
	$(BIN)/sweep run quickstart
	@echo "report: $$($(BIN)/sweep report quickstart)"

env: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	touch $@

lint: $(VENV)/installed-test  ## ruff and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint  ## everything that CI runs
	$(BIN)/pytest -n 2 --dist loadfile $(CLUSTERS:%=--ignore=%)
	$(BIN)/pytest $(CLUSTERS)

fidelity: env  ## our runs beside the paper's published ones: the better part of an hour of two cores
	$(BIN)/python tests/benchmarks/fidelity.py

bench: env  ## what this machine can do and what training reaches of it
	$(BIN)/sweep bench --threads 1

bench-overhead: env  ## what a trial costs beside its training
	$(BIN)/python tests/benchmarks/overhead.py
	$(BIN)/python tests/benchmarks/overhead.py --ray

faults: $(VENV)/installed-test  ## clusters of several nodes that lose nodes, workers and drivers: some minutes
	$(BIN)/pytest tests/faults/cluster_faults.py

bench-throughput: env  ## trials an hour beside plain loops
	$(BIN)/python tests/benchmarks/throughput.py

bench-workers: env  ## the time of two workers beside that of one
	$(BIN)/python tests/benchmarks/workers.py

bench-report: env  ## status, plan and report on stores of 27,700 and of a million trials
	$(BIN)/python tests/benchmarks/report.py

bench-generators: env  ## how fast sequences of every task are drawn
	$(BIN)/python tests/benchmarks/generators.py

bench-gpu: env  ## what training reaches on a GPU; needs torch and numpy alone
	$(BIN)/python tests/benchmarks/gpu.py

clean:
	rm -rf $(VENV) build *.egg-info
