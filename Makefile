# Parley's commands for people and for CI; `make help` lists them.

# The newest that is there and runs: a name that pyenv left on the path need not.
PYTHONS := 3.13 3.12 3.11
PYTHON ?= $(shell for version in $(PYTHONS); do python$$version -c 0 2> /dev/null && echo python$$version && break; done)
VENV := .venv
BIN := $(VENV)/bin
# The documentation's generator has an environment of its own, which also sees what is in $(VENV); so have exports and DVC's remotes.
DOCS_VENV := .venv-docs
EXPORTS_VENV := .venv-exports
REMOTES_VENV := .venv-remotes
# Servers of models that others wrote, for tests.
SERVERS_VENVS := .venv-litellm .venv-xllamacpp
STUDY ?= demo
CORES ?= all
# What installs: uv, or pip.
INSTALLER ?= uv
MINUTES ?= 10
# Processes that share the tests without an engine (not pytest's `auto`, which counts the cores of the machine, not ours).
WORKERS ?= $(shell nproc)
# One more where many tests wait: for Snakemake, for SLURM.
WAITING := $(shell expr $(WORKERS) + 1)
# The tools find each other, and Snakemake's jobs find parley, without an activated environment.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Where this is set, each process compiles again what was installed without bytecode: 6 s of every start of vLLM.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help setup exports remotes servers demo model second-model test test-slow test-fast test-pythons reference playthroughs limits lint format docs bench dist published findings gpu-check clean

help: ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.installed ## Install the pinned environment into .venv (INSTALLER=pip: without uv)

# Everything is pinned and installed without dependencies: vLLM's own would pull in CUDA builds that break it on a CPU.
$(VENV)/.installed: envs/cpu.txt envs/install.py pyproject.toml
	@test -n "$(PYTHON)" || { echo "setup: Parley needs Python 3.11, 3.12 or 3.13; get one, for example by: uv python install 3.12"; exit 1; }
	@echo "Installing the pinned environment into $(VENV): 3 GB; half a minute to some minutes, as fast as it downloads."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python envs/install.py envs/cpu.txt --editable . --installer $(INSTALLER)
	@$(BIN)/python -m parley.engine.needs
	@touch $@

# An environment beside $(VENV), of the list of its name; its own packages come before those of $(VENV).
.venv-%/.installed: envs/%.txt envs/install.py $(VENV)/.installed
	@$(BIN)/python -m venv $(@D)
	@$(BIN)/python envs/install.py $< --python $(@D)/bin/python --installer $(INSTALLER)
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > "$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/parley.pth"
	@touch $@

# The same pins under another Python, without PyTorch: an index may have its build for CPUs for one Python alone.
.venv-py%/.installed: envs/cpu.txt envs/install.py $(VENV)/.installed
	@PYENV_VERSION=$* python$* -m venv $(@D)
	@$(BIN)/python envs/install.py $< --python $(@D)/bin/python --without torch --editable . --installer $(INSTALLER)
	@touch $@

exports: $(EXPORTS_VENV)/.installed ## Install inspect_ai beside it, in .venv-exports (50 MB)

remotes: $(REMOTES_VENV)/.installed ## Install beside it, in .venv-remotes, what DVC needs for S3 and SSH, and a server of S3 for tests (85 MB)

servers: $(SERVERS_VENVS:%=%/.installed) ## Install litellm's proxy and llama.cpp's server, for the rare tests, in .venv-litellm and .venv-xllamacpp (600 MB)

demo: setup ## Run the demo study on a real model, and print its conditions and the path of its report
	parley run $(STUDY) --cores $(CORES)
	@echo
	@parley summarize $(STUDY)
	@echo
	@echo "Report: $$(parley report $(STUDY))"
	@echo "Every game and reply: results/$(STUDY)/view/index.html"
	@echo "Games of a model that plays, and what they answer: make findings, then docs/findings.md"

# Says license and sizes first, and downloads only what is not here.
model: setup ## Install and prepare a model: make model NAME=qwen2.5-coder-1.5b
	@parley fetch-model "$(NAME)" --install $(INSTALLER)

second-model: ## The same as make model NAME=gemma3-270m, 0.8 GB, under Google's Gemma Terms of Use
	@$(MAKE) --no-print-directory model NAME=gemma3-270m

# Tests are dealt out by files, which share what is set up once; the longest files come first (tests/conftest.py).
test: setup ## Run the tests: 6 minutes on two quiet cores; some of them on the real model
	pytest -m "not rare" -n $(WAITING) --dist loadfile --no-loadscope-reorder --progress

# Two clusters at once: these tests mostly wait.
test-slow: setup exports remotes ## Run the rare tests: kill plans, full disks, SLURM (slurm-wlm, munge), the browser, remotes
	pytest -m rare -n $(WAITING) --dist loadfile --no-loadscope-reorder --progress

# What is slow is marked so: conftest.py fails a test that starts a process and is not; the list printed here names
# those that have become slow.
FAST := not slow and not model and not rare
test-fast: setup ## Run the tests of pure code: all that start no process and take under a quarter of a second
	pytest -m "$(FAST)" -n $(WORKERS) --dist worksteal -q --durations=10 --durations-min=0.5

# PYENV_VERSION means something to pyenv alone, whose names on the path run no Python without it.
test-pythons: setup ## Run the fast tests under each Python of 3.11 to 3.13 that is here and is not that of .venv
	@for version in $(PYTHONS); do \
	  $(BIN)/python -V | grep -q " $$version\." && continue; \
	  PYENV_VERSION=$$version python$$version -c 0 2> /dev/null || { echo "Python $$version: not here"; continue; }; \
	  $(MAKE) --no-print-directory .venv-py$$version/.installed || exit 1; \
	  echo "Python $$version:"; \
	  .venv-py$$version/bin/python -m pytest -m "$(FAST)" -n $(WORKERS) --dist worksteal -q || exit 1; \
	done

reference: setup ## Write the keys, columns, commands and promises in docs/, and the schemas in config/, anew
	@python docs/_extensions/reference.py

playthroughs: setup ## Write the games of docs/playthroughs anew; read the diff
	@PYTHONPATH=tests python -m support.playthrough

limits: setup ## Check that source, pages and tests are no larger than .ci/limits.yaml allows
	@python .ci/limits.py

lint: setup ## Check format, lint, types, imports and the workflow
	ruff format --check .
	ruff check .
	mypy
	lint-imports --no-cache --no-logo
	snakefmt --check Snakefile workflow
	snakemake --lint

format: setup ## Format everything
	ruff format .
	ruff check --fix .
	snakefmt Snakefile workflow

# Warnings are errors: a broken link, a page without a place in the navigation, a heading that is not there.
docs: $(DOCS_VENV)/.installed ## Build the documentation's site, site/index.html
	@rm -rf site docs/_generated
	$(DOCS_VENV)/bin/sphinx-build -E -W --keep-going -q -b html docs site

bench: setup ## Measure speed and memory; writes benchmarks/README.md's table
	python -m benchmarks.run

dist: setup ## Build and check the wheel and the source distribution, in dist/
	@rm -rf dist build
	uv build --quiet --no-build-isolation --out-dir dist
	uv tool run twine@6.2.0 check --strict dist/*.whl dist/*.tar.gz

published: setup ## Import the published games of Byzantine Cheap Talk, beside their paper: make published GAMES=PATH of a copy
	@test -d "$(GAMES)/results" || { echo "published: give GAMES=PATH of a copy of github.com/saleml/byzantine-cheap-talk"; exit 1; }
	parley import byzantine-cheap-talk "$(GAMES)/results" --name published-games
	parley run published-games
	python -m benchmarks.published_cheap_talk

findings: setup ## Make docs/findings.md and its figures from the records in findings/, and replay each of these
	python -m findings.make

# Without `setup`, which installs the CPU build: this is for the environment of envs/cuda.txt, and works without a network.
gpu-check: ## Measure this machine's GPU in 10 minutes (MINUTES=15: all of it), without weights and without a network
	@python -c 'import parley, prometheus_client' 2>/dev/null || { echo "gpu-check: install envs/cuda.txt first (envs/README.md says how)"; exit 1; }
	python -m benchmarks.gpu --minutes $(MINUTES)

clean: ## Remove what can be made again, but no results and no models
	rm -rf $(VENV) $(DOCS_VENV) $(EXPORTS_VENV) $(REMOTES_VENV) $(SERVERS_VENVS) site docs/_generated .snakemake .mypy_cache .ruff_cache .pytest_cache .hypothesis
