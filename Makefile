# One word per task. Each makes the environment first, which is instant once it is up to date.

.PHONY: setup demo test check format docs soak

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TEST := $(BIN)/pytest -q -n 2
HOOKED := glassformer.equations,glassformer.layers,glassformer.models
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

setup: $(READY)
	@:

$(READY): pyproject.toml constraints.txt
	@echo "Setting up .venv; the first time takes a few minutes." >&2
	@$(PYTHON) -m venv .venv
	@$(INSTALL) torch
	@$(INSTALL) --editable '.[dev,metrics]'
	@touch $@

demo: $(READY)
	@$(BIN)/glassformer demo

# Shapes are checked at run time by a hook that torch.compile cannot see through: compiled tests run without it.
test: $(READY)
	@$(TEST) tests/compiled
	@$(TEST) --ignore tests/compiled --jaxtyping-packages=$(HOOKED),tests.check

check: $(READY)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory test

format: $(READY)
	@$(BIN)/ruff check --quiet --fix
	@$(BIN)/ruff format --quiet

docs: $(READY)
	@$(BIN)/python docs/generate.py

soak: $(READY)
	@$(TEST) -m soak
