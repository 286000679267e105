# Everything here does its own set-up: Python >= 3.11 with venv, make and git are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PROOF := $(VENV)/.proof-installed
PYTEST_ARGS ?=
MATRIX_ARGS ?=
# Tests wait for processes about as long as they compute: four workers keep two cores busy, and none is left with a long file.
SPREAD := -n 4 --dist worksteal
# uv trusts a list of its own: behind a proxy with its own authority, as in many companies, it would install nothing.
export UV_SYSTEM_CERTS := true

.PHONY: demo test check format bench chaos coverage mutation sbom audit docker matrix clean

demo: $(STAMP)
	@$(BIN)/outbox demo

test: $(STAMP)
	@$(BIN)/python -m pytest $(SPREAD) $(PYTEST_ARGS)

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
	@$(BIN)/python -m pytest -n 2 --dist loadfile tests/chaos $(PYTEST_ARGS)

# Processes that a test kills leave no data, so the figure is a little lower than the truth.
coverage: $(PROOF)
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(SPREAD) --timeout 600 $(PYTEST_ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

mutation: $(PROOF)
	@$(BIN)/mutmut run --max-children 2 > $(VENV)/mutation.log 2>&1 || { tail -c 2000 $(VENV)/mutation.log; exit 1; }
	@$(BIN)/mutmut results

# What a relay with every extra is made of, at the newest versions: the input of the next two.
SHIPPED := build/shipped

$(SHIPPED)/installed: $(PROOF)
	@$(BIN)/uv --quiet venv --clear $(SHIPPED)
	@$(BIN)/uv --quiet pip install --python $(SHIPPED)/bin/python '.[binary,ed25519,httpx,otel]'
	@touch $@

sbom: $(SHIPPED)/installed
	@mkdir -p dist
	@$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file dist/outbox-relay.cdx.json $(SHIPPED)/bin/python
	@echo "sbom: dist/outbox-relay.cdx.json"

# Asks pypi.org and so needs it. --strict: what could not be looked up fails, it does not count as sound.
audit: $(SHIPPED)/installed
	@$(BIN)/uv --quiet pip freeze --python $(SHIPPED)/bin/python | grep -v '^outbox-relay' > $(SHIPPED)/requirements.txt
	@$(BIN)/pip-audit --strict --disable-pip --no-deps --requirement $(SHIPPED)/requirements.txt

docker: $(STAMP)
	@$(BIN)/python -m tests.docker

matrix: $(PROOF)
	@$(BIN)/python -m tests.matrix $(MATRIX_ARGS)

clean:
	@rm -rf $(VENV) dist build mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo,httpx]' --group test --group check
	@touch $@

$(PROOF): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group proof
	@touch $@
