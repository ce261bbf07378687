# One word per task. Each makes the environment first, which is instant once it is up to date.

.PHONY: setup demo quick test check machines kernels format docs soak

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TEST := $(BIN)/pytest -q -n 3 --dist loadgroup
HOOKED := glassformer.equations,glassformer.layers,glassformer.models
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

setup: $(READY)
	@:

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV); the first time takes a few minutes." >&2
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) torch
	@$(INSTALL) --editable '.[dev]'
	@touch $@

demo: $(READY)
	@$(BIN)/glassformer demo

quick: $(READY)
	@$(TEST) tests/test_smoke.py tests/house/test_floors.py tests/house/test_sizes.py tests/house/test_reading.py

# Types and shapes are checked at run time by a hook, while equations, layers and models are tested and what runs them.
# These tests run without it: torch.compile cannot see through it, it refuses a wrong configuration before the library
# can, and commands, pages and files show nothing about shapes that the others do not.
COMPILED := tests/compiled tests/models/test_configs.py
UNHOOKED := $(addprefix tests/,browser checkpoints cli course data house studio text views)
test: $(READY)
	@$(TEST) $(COMPILED) $(UNHOOKED)
	@$(TEST) $(addprefix --ignore=,$(COMPILED) $(UNHOOKED)) --jaxtyping-packages=$(HOOKED),tests.check

check: $(READY)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory test

# The tests whose numbers could depend on the processor, as on one without AVX-512 or without AVX2, with 1 and 8 threads.
NUMBERS := tests/course/worked tests/training/test_golden.py tests/equations
machines: $(READY)
	@ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1 $(TEST) $(NUMBERS)
	@ATEN_CPU_CAPABILITY=avx2 OMP_NUM_THREADS=8 $(TEST) $(NUMBERS)
	@ATEN_CPU_CAPABILITY=default $(BIN)/glassformer check > /dev/null
	@ATEN_CPU_CAPABILITY=avx2 $(BIN)/glassformer check > /dev/null

# The Triton kernels beside the equations they fuse, in Triton's interpreter: this needs no GPU, but a large download.
# It is not in constraints.txt, since a torch with CUDA brings the version it needs.
TRITON := $(VENV)/triton
$(TRITON):
	@$(INSTALL) --no-deps --target $(TRITON) triton==3.9.0
kernels: $(READY) $(TRITON)
	@PYTHONPATH=$(TRITON) TRITON_INTERPRET=1 $(TEST) tests/inference/test_triton_kernels.py

format: $(READY)
	@$(BIN)/ruff check --quiet --fix
	@$(BIN)/ruff format --quiet

docs: $(READY)
	@$(BIN)/python docs/generate.py

# What takes minutes, and more cases of what is tried with many: those that `cases` gives a number of.
soak: $(READY)
	@$(TEST) -m soak
	@$(TEST) --hypothesis-profile=nightly $(shell grep -rl --include=*.py "import cases$$" tests)
