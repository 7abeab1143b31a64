# `make demo` and `make test` need Python 3.11 with pip and create everything else themselves.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
OUT ?= trainforensics-out

.PHONY: demo test lint types contracts fixtures docs bench-import bench-detect clean

demo: $(VENV)/.installed ## Analyse the logs shipped in fixtures/ and say where the report is
	$(BIN)/trainforensics analyze fixtures/runs --out $(OUT)

test: $(VENV)/.dev ## The tests
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.dev ## Style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## Strict types
	$(BIN)/mypy

contracts: $(VENV)/.dev ## Which room may import which
	$(BIN)/lint-imports

docs: $(VENV)/.installed ## Write docs/kinds/ again from the detectors' docstrings
	$(BIN)/python docs/generate.py

fixtures: $(VENV)/.fixtures ## Train the runs in fixtures/ again (PyTorch on the CPU)
	$(BIN)/python -m fixtures.train

bench-import: $(VENV)/.dev ## How fast logs are read, into docs/benchmarks.md
	$(BIN)/python benchmarks/import_speed.py > $(VENV)/import.md
	$(BIN)/python -m benchmarks.page import $(VENV)/import.md
	cat $(VENV)/import.md

bench-detect: $(VENV)/.dev ## How good the verdicts are, beside public rules and tools, into docs/benchmarks.md
	$(BIN)/python -m benchmarks.detect

clean:
	rm -rf $(VENV) $(OUT)

# pip of a fresh Python 3.11 is older than dependency groups (25.1).
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt pip

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing trainforensics and what it needs into $(VENV), about a minute ..."
	$(PIP) install --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	@echo "Installing what the tests need into $(VENV) ..."
	$(PIP) install --constraint constraints.txt --group dev
	touch $@

$(VENV)/.fixtures: $(VENV)/.installed
	@echo "Installing PyTorch for the CPU and other trainers into $(VENV) ..."
	$(PIP) install --constraint constraints.txt --group fixtures
	touch $@
