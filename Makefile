# Everything runs in .venv, which `make setup` fills from requirements.lock; nothing else has to be installed or set.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# uv takes less than half of pip's time, but does not read pip's settings: where only these know an index, pip goes on.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# One process runs all that needs Spark, the other begins with the long tests of the rest; see tests/conftest.py.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadgroup

# Without what Python and pytest keep of compiled modules, every process would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test check deep generated planted kernels lint format types imports lock clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv and install everything into it

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Sash needs Python 3.11 or newer, but $(PYTHON) is older; run make setup PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	@awk '/^uv==/ { found = 1 } found { print } found && !/\\$$/ { exit }' requirements.lock > .venv/uv.lock
	$(PIP) install --requirement .venv/uv.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --requirement requirements.lock || \
		$(PIP) install --requirement requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	$(BIN)/sash compile
	@touch $@

demo: $(READY) ## run the example queries on a small data centre
	$(BIN)/python -m sash.lab.workloads.datacenter examples/data
	$(BIN)/sash run --fresh examples/datacenter.sql

test: $(READY) ## run all tests
	$(PYTEST) --hypothesis-profile=ci --durations=20

check: $(READY) ## run the fast tests
	$(PYTEST) --hypothesis-profile=dev -m "not slow and not spark"

VOLUME ?= 1
deep: $(READY) ## run all tests, or those that ONLY names, with many more cases (VOLUME times), new ones each time; hours
	@seed=$${SASH_SEED:-$$(date +%y%j%H)}; \
		echo "the same again: SASH_SEED=$$seed make deep VOLUME=$(VOLUME) ONLY='$(ONLY)'"; \
		SASH_SEED=$$seed SASH_VOLUME=$(VOLUME) $(PYTEST) --hypothesis-profile=deep --hypothesis-seed=$$seed --timeout=14400 --durations=20 $(ONLY)

CASES ?= 2000
SEED ?= 0
generated: $(READY) ## check CASES generated queries from SEED on, and say what was drawn
	PYTHONPATH=tests $(BIN)/python -m support.generated --cases $(CASES) --seed $(SEED)

planted: $(READY) ## plant mistakes in a copy of src/, one at a time, and tell which test notices
	PYTHONPATH=tests $(BIN)/python -m planted $(PLANTED)

kernels: $(READY) ## note for what types kernels are compiled, so that sash compile does it ahead; after make test
	PYTHONPATH=tests $(BIN)/python -m support.kernel_signatures

lint: $(READY) ## check format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(READY) ## format, and repair what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Without this variable pyright asks the network for a newer version of itself on every run.
types: export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
types: $(READY) ## check the types of src/ and tests/
	$(BIN)/pyright

imports: $(READY) ## check that imports go one way
	$(BIN)/lint-imports

lock: $(READY) ## choose the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --fork-strategy fewest --extra dev \
		--generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
		--output-file requirements.lock pyproject.toml

clean: ## remove .venv and everything that was made
	rm -rf .venv .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist examples/data examples/output spark-warehouse
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
