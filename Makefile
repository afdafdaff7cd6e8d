# Everything a person runs. Each target sets up what it needs: Python 3.11, git and make are enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo up test test-fast test-slow test-browser test-cuda chaos lint format bench clean constraints

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make the virtual environment (other targets do it by themselves)

$(STAMP): pyproject.toml client/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tilefarm needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "this Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  --editable ./client --editable '.[dev]'
	@touch $(STAMP)

demo: setup ## Tune mm_relu on this machine, end to end, and compare it with numpy (under two minutes)
	$(BIN)/python -m examples.demo

up: setup ## Run the whole service on this machine until Ctrl-C
	@$(BIN)/tilefarm-server up

lint: setup ## ruff, mypy (strict) and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy client/src/tilefarm
	$(BIN)/lint-imports

format: setup ## Format and fix what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup ## Every test, on SQLite, PostgreSQL and Valkey started from wheels
	$(BIN)/pytest -m 'not browser and not slow' -n 2 --dist loadgroup --no-loadscope-reorder --durations=20

test-slow: setup ## Worker roles killed in a job, a worker cut off from its broker (two minutes)
	$(BIN)/pytest -m slow

test-fast: setup ## The tests that start no service
	$(BIN)/pytest -m 'not system and not browser and not slow'

test-browser: setup ## The dashboard in a real Chromium, on a service that tunes; says so where there is none
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[browser]'
	$(BIN)/pytest -m browser tests/browser

test-cuda: setup ## Kernels for GPUs compiled; timed, and a job tuned, where there is a GPU; says what was not run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cuda]'
	$(BIN)/pytest -rs tests/workers/test_cuda.py tests/workers/test_gpu.py tests/system/test_gpu_job.py

chaos: setup ## Every fault of docs/faults.md injected into real processes, with a table (twenty minutes)
	$(BIN)/python -m tests.chaos $(ARGS)

bench: setup ## Evolution against random search, then the service against stock ms.tune_tir; or ARGS="stock --workloads SFM"
ifdef ARGS
	$(BIN)/python -m bench $(ARGS)
else
	$(BIN)/python -m bench strategies --trials 96 --seeds 3
	$(BIN)/python -m bench stock
endif

constraints: ## Freeze the versions of the current virtual environment (keep the lines with a marker by hand)
	$(BIN)/python -m pip freeze --exclude-editable | sed '/ @ /d' > constraints.txt

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
