# Everything here does its own set-up: Python >= 3.11 with venv, make and git are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PROOF := $(VENV)/.proof-installed
PYTEST_ARGS ?=
MATRIX_ARGS ?=

.PHONY: demo test check format bench chaos coverage matrix clean

demo: $(STAMP)
	@$(BIN)/outbox demo

test: $(STAMP)
	@$(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

check: $(STAMP)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }
	@echo "check: format, lint, types and imports are clean"

format: $(STAMP)
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

bench: $(STAMP)
	@$(BIN)/python -m tests.benchmarks

chaos: $(STAMP)
	@$(BIN)/python -m pytest -n 0 tests/chaos $(PYTEST_ARGS)

# Processes that a test kills leave no data, so the figure is a little lower than the truth.
coverage: $(PROOF)
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -n 2 --dist loadfile --timeout 600 $(PYTEST_ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

matrix: $(PROOF)
	@$(BIN)/python -m tests.matrix $(MATRIX_ARGS)

clean:
	@rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo,httpx]' --group test --group check
	@touch $@

$(PROOF): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group proof
	@touch $@
