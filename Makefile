# `make` alone explains itself. Every target sets up $(VENV) by itself, once.
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin
READY = $(VENV)/.holdfast-ready
BROWSER = $(VENV)/.holdfast-browser
SITE = $(VENV)/.holdfast-site
# One thread per test process: several tests run side by side, and results must not depend on the number of cores.
# The tests of a file stay together: what they share is made once.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

# Of `make bench`: where it writes, and the batches of the losses (the largest, 4096, takes long).
OUT ?= runs/bench
BATCHES ?= 128 1024

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow faults fuzz audit-deps lint format bench results docs clean

help: ## show this help
	@echo "holdfast: train, attack and audit image embeddings"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  VENV=path reuses an environment instead of .venv"

# torch comes first and pinned: an open range would pull another build of it.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,milvus,onnx,parquet,serve]"
	@touch $@

setup: $(READY) ## create the environment (every other target does it too)

# For the tests that open a report; tried once, and they skip without.
$(BROWSER): $(READY)
	@sh tools/browser.sh $(BIN)/python
	@touch $@

demo: $(READY) ## train three ways on embedded data, attack, and compare on one page
	$(BIN)/holdfast demo

test: $(READY) $(BROWSER) ## run the tests
	$(PYTEST) -m "not slow"

test-slow: $(READY) $(BROWSER) ## run the long campaigns: kill and resume, several seeds, long fuzzing
	$(PYTEST) -m slow

faults: $(READY) ## kill, fill disks, damage files and more; print what was survived (docs/results/notebook-faults.md)
	$(BIN)/python tools/faults.py --only kills commands stops disks damage images clocks memory processes ranks health

fuzz: $(READY) ## 100,000 damaged and hostile inputs (FUZZ="--seconds 20" for as many as fit)
	OMP_NUM_THREADS=1 $(BIN)/python tools/fuzz.py $(FUZZ)

audit-deps: $(READY) ## known weaknesses of the pinned dependencies, where a database can be reached
	sh tools/audit_deps.sh $(BIN)/python

lint: $(READY) ## ruff, mypy, import layers
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file= --ignore-missing-imports --follow-imports=silent benchmarks tools
	$(BIN)/lint-imports

format: $(READY) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## measure speed on this CPU; numbers, tables and plots in OUT=runs/bench
	mkdir -p $(OUT)
	$(BIN)/python benchmarks/startup.py --repeats 3 --json $(OUT)/startup.json
	$(BIN)/python benchmarks/data.py --images 256 --json $(OUT)/data.json
	$(BIN)/python benchmarks/gradients.py --json $(OUT)/gradients.json
	$(BIN)/python benchmarks/growth.py --json $(OUT)/growth.json --table $(OUT)/growth.md
	$(BIN)/python benchmarks/losses.py --batch $(BATCHES) --dim 512 --repeats 3 --json $(OUT)/losses.json --table $(OUT)/losses.md
	$(BIN)/python benchmarks/metrics.py --json $(OUT)/metrics.json
	$(BIN)/python benchmarks/plots.py $(OUT)

results: $(READY) ## write the pages of docs/results again from their raw files (TAKE=runs/studies adds new ones)
	$(BIN)/python tools/results.py docs/results $(if $(TAKE),--take $(TAKE))

$(SITE): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	@touch $@

docs: $(SITE) ## build the site into site/, and run every snippet and example
	$(BIN)/mkdocs build --strict --quiet
	$(PYTEST) tests/test_docs.py tests/test_examples.py tests/test_site.py

clean: ## remove the environment, caches and runs
	rm -rf $(VENV) runs build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info
