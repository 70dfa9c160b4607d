# Works on a fresh checkout with nothing but make and Python 3.11 or newer; C kernels need a C compiler too.
#
# On Linux, PyPI's torch is the CUDA build, several gigabytes. The small CPU build is as good for everything here:
#   make test PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
IN_C   := $(shell find src -name '*.[ch]')
# Each of two processes begins with half of the tests in their order: what the tests of a file share is made once.
PYTEST := -m pytest -n 2 --dist worksteal
QUICK  := tests/typing tests/spec tests/kernels tests/wrong_use tests/test_english.py tests/test_errors.py tests/test_hot_path.py \
	tests/test_imports.py

# Triton and Helion, for tests/cuda/test_languages.py alone: they are large, and torch imports Triton where it finds it.
LANGUAGES := .venv-languages

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-all fuzz net lint docs wheel bench smoke test-torch clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp ## train a network whose layers are operators, and check them
	$(BIN)/torchgraft demo

quick: $(VENV)/.stamp ## a minute: style, types, and the tests of declarations, kernels, rules and wrong use
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/clang-format --dry-run --Werror $(IN_C)
	$(BIN)/mypy
	$(BIN)/python $(PYTEST) -q -m "slow or not slow" $(QUICK) $(ARGS)

test: $(VENV)/.stamp ## four minutes: the test suite; make test ARGS='-k compile -x' passes options to pytest
	$(BIN)/python $(PYTEST) tests $(ARGS)

test-all: $(VENV)/.stamp $(LANGUAGES)/.stamp ## half an hour and more: with the slow tests, most of them further rows of tables; needs CMake and a C++20 compiler
	$(BIN)/python $(PYTEST) -m "slow or not slow" tests $(ARGS)

fuzz: $(VENV)/.stamp ## random operators under random transforms, beside plain torch; make fuzz SECONDS=600 SEED=1
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),600) --seed $(or $(SEED),0) $(ARGS)
	$(BIN)/python -m tests.fuzz.on_mesh --seconds $(or $(SECONDS),60) --seed $(or $(SEED),0)
	$(BIN)/python -m tests.fuzz.on_writes --seconds $(or $(SECONDS),60) --seed $(or $(SEED),0)

net: $(VENV)/.stamp ## what the checker finds, beside what it found when benchmarks/net.json was written; nothing may be lost
	$(BIN)/python benchmarks/net.py $(ARGS)

lint: $(VENV)/.stamp ## style, formatting and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/clang-format --dry-run --Werror $(IN_C)
	$(BIN)/mypy

docs: $(VENV)/.stamp ## the documentation site, in site/
	$(BIN)/python -m docs._sphinx

wheel: $(VENV)/.stamp ## the wheel, in dist/, with the kernels of torchgraft.scipy compiled
	HATCH_BUILD_HOOK_ENABLE_TORCHGRAFT=true $(BIN)/python -m hatchling build -t wheel

bench: $(VENV)/.stamp ## every benchmark, printing the tables of docs/benchmarks.md
	@set -e; for script in benchmarks/[!_]*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

smoke: $(VENV)/.stamp .venv-torch-$(or $(TORCH),unset)/.stamp ## a slice of the tests on another torch: make smoke TORCH=2.15.0
	$(BIN)/python -m tests.versions .venv-torch-$(TORCH)

test-torch: .venv-torch-$(or $(TORCH),unset)/.stamp ## the test suite on another torch: make test-torch TORCH=2.15.0
	.venv-torch-$(TORCH)/bin/python $(PYTEST) tests $(ARGS)

clean: ## remove caches and products; the environments (.venv*) stay, they are slow to make
	rm -rf build dist site demo/*.png .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples benchmarks docs -name __pycache__ -prune -exec rm -rf {} +

# One environment for everything: torch outweighs all the rest, so that separate ones would only cost disk and time.
# The stamp is written last, so that an interrupted installation is taken up again, and is remade with its inputs.
$(LANGUAGES)/.stamp: Makefile $(VENV)/.stamp
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(LANGUAGES) triton==3.9.0 helion==1.5.1 psutil filecheck
	touch $@

$(VENV)/.stamp: pyproject.toml constraints.txt
	$(make-venv)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test,dev,docs]'
	@touch $@

# The same constraints with another torch, still pinned, so that nothing can resolve it to any other version; without
# setuptools, which old versions of torch bound from above and new ones from below, and NVIDIA's, which torch pins.
.venv-torch-%/.stamp: pyproject.toml constraints.txt
	@case '$*' in [0-9]*) ;; *) echo "Say which torch: make test-torch TORCH=2.15.0" >&2; exit 1;; esac
	$(make-venv)
	@sed -e 's/^torch==.*/torch==$*/' -e '/^setuptools==/d' -e '/^nvidia-/d' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet -c $(@D)/constraints.txt -e '.[test]'
	@touch $@

define make-venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
    echo "torchgraft needs Python 3.11 or newer, which '$(PYTHON)' is not. If you have one under another name:" >&2; \
    echo "  make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
$(PYTHON) -m venv $(@D)
endef
