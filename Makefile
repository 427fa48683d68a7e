# `make demo` and `make test` do all setup themselves. `PYTHON=python3.12 make ...` uses another interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
PUBLISHING := $(VENV)/.publishing
READY_ALL := $(VENV)/.ready-all
# Else each process compiles torch again, which takes ten seconds.
export PYTHONDONTWRITEBYTECODE :=
# A third worker on two cores works while the others wait for servers, browsers and processes.
PYTEST := $(BIN)/python -m pytest -n 3 --dist worksteal -rs

.PHONY: demo test test-all lint bench docs site package clean

# The same as these two commands by hand; interrupted and repeated, it resumes where it left off.
demo: $(INSTALLED)
	$(BIN)/evenkeel grid examples/digits.toml --out runs/demo
	$(BIN)/evenkeel report runs/demo --output runs/demo/report.html --title "Replay, with CBA, and the keel: digits"

test: $(READY)
	$(PYTEST)

# Includes the tests that take long and are similar to others: CONTRIBUTING.md lists them. The last line has the time.
test-all: $(READY_ALL) $(PUBLISHING)
	$(PYTEST) -m ""

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/step_cost.py
	$(BIN)/python benchmarks/augment_cost.py
	$(BIN)/python benchmarks/run_cost.py
	$(BIN)/python benchmarks/grid_speed.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python -m benchmarks.keel_cost --write
	$(BIN)/python benchmarks/service_load.py --write
	$(BIN)/python -m benchmarks.service_overload --write
	$(BIN)/python -m benchmarks.service_ratio --write
	$(BIN)/python -m benchmarks.prediction_cost --write
	$(BIN)/python -m benchmarks.many_classes --write
	$(BIN)/python benchmarks/body_cost.py

# Fill the tables and figures of README and docs from the ledgers under results/ and from the code.
docs: $(READY)
	$(BIN)/python -m docs.fill

# Build the documentation site in build/site/html: strict, so a broken link fails, and without the network.
site: $(PUBLISHING)
	$(BIN)/python docs/site/build.py

# Build wheel and sdist, check them, and run the quickstart in an environment that has only the wheel.
package: $(READY) $(PUBLISHING)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m pytest tests/test_package.py -m ""

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# The constraints pin torch to the version with a small CPU build; without them pip would fetch CUDA. Most modules of the
# packages are never imported, so --no-compile saves the time to compile them. The version is in __init__.py.
$(INSTALLED): pyproject.toml constraints.txt src/evenkeel/__init__.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable .
	touch $@

$(READY): $(INSTALLED)
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

$(READY_ALL): $(READY)
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev-all]'
	touch $@

$(PUBLISHING): $(INSTALLED)
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[docs,release]'
	touch $@
