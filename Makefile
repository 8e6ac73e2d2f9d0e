# `make help` lists the targets. Everything is written below this folder: environment, caches, settings of Jupyter and IPython.
# Any variable that is already set in the environment is left as it is, so shared caches stay shared: HF_HOME=~/.cache/huggingface make reports

PYTHON ?= python3.11
VENV = .venv
BIN = $(VENV)/bin
CACHE = $(CURDIR)/.cache

PIP_CACHE_DIR ?= $(CACHE)/pip
HF_HOME ?= $(CACHE)/huggingface
TORCH_HOME ?= $(CACHE)/torch
MPLCONFIGDIR ?= $(CACHE)/matplotlib
IPYTHONDIR ?= $(CACHE)/ipython
JUPYTER_CONFIG_DIR ?= $(CACHE)/jupyter/config
JUPYTER_DATA_DIR ?= $(CACHE)/jupyter/data
JUPYTER_RUNTIME_DIR ?= $(CACHE)/jupyter/runtime
XDG_CACHE_HOME ?= $(CACHE)/xdg/cache
XDG_CONFIG_HOME ?= $(CACHE)/xdg/config
XDG_DATA_HOME ?= $(CACHE)/xdg/data
XDG_STATE_HOME ?= $(CACHE)/xdg/state
# Two that are only asked for their version, by pip and by JupyterLab, and write into their homes all the same.
RUSTUP_HOME ?= $(CACHE)/rustup
NPM_CONFIG_CACHE ?= $(CACHE)/npm
# OpenMP threads that wait must sleep: two torch processes that spin on the same cores slow each other down many times over.
OMP_WAIT_POLICY ?= PASSIVE
GOMP_SPINCOUNT ?= 0
TOKENIZERS_PARALLELISM ?= false
HF_HUB_DISABLE_TELEMETRY ?= 1
PIP_DISABLE_PIP_VERSION_CHECK ?= 1
UV_CACHE_DIR ?= $(CACHE)/uv
UV_PYTHON_DOWNLOADS ?= never
export PIP_CACHE_DIR HF_HOME TORCH_HOME MPLCONFIGDIR IPYTHONDIR JUPYTER_CONFIG_DIR JUPYTER_DATA_DIR JUPYTER_RUNTIME_DIR
export XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME RUSTUP_HOME NPM_CONFIG_CACHE
export OMP_WAIT_POLICY GOMP_SPINCOUNT TOKENIZERS_PARALLELISM HF_HUB_DISABLE_TELEMETRY PIP_DISABLE_PIP_VERSION_CHECK
export UV_CACHE_DIR UV_PYTHON_DOWNLOADS
# Hundreds of processes load the library; where nothing that is compiled is kept, each compiles it again.
unexport PYTHONDONTWRITEBYTECODE

# The constraints are passed to every install; the build uses the environment's own setuptools, since a build of its own would not see them.
PIP = $(BIN)/python -m pip install --quiet --no-build-isolation
# What the locks do not name is installed with a word: no hash is checked, and only direct packages have a fixed version.
UNCHECKED = echo "make $@: NOT checked against hashes: what is installed now, and what it needs, is not in the locks"
INSTALL = @$(UNCHECKED) && $(PIP) --constraint requirements/constraints.txt
# On Linux with Python 3.11 every package is checked against its hash; `make venv LOCKED=` takes what the constraints allow, as other machines do.
LOCKED ?= $(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),$(shell $(PYTHON) -c 'import sys; print("yes" if sys.version_info[:2] == (3, 11) else "")'))

.DEFAULT_GOAL := help
.PHONY: help venv reports reports-all test test-faults test-library lock dist docs sync made check clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

.cache: # IPython makes its folder only where there is one above it
	mkdir -p $@

venv: $(VENV)/.stamp ## make the environment .venv with the pinned versions (PYTHON=... chooses the Python, 3.11 by default)

LOCKS = requirements/common.lock requirements/cpu.lock requirements/cuda.lock

$(VENV)/.stamp: pyproject.toml requirements/constraints.txt $(LOCKS) | .cache
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifneq ($(LOCKED),)
	$(PIP) --no-compile --no-deps --require-hashes -r requirements/cpu.lock -r requirements/common.lock \
	|| { echo "There is no CPU build of torch here: the published one, with the CUDA libraries that it asks for"; \
	     $(PIP) --no-compile --no-deps --require-hashes -r requirements/cuda.lock -r requirements/common.lock; }
	$(PIP) --no-deps --editable .
	$(BIN)/python -m pip check --quiet # nothing that the locks should have is missing
	$(BIN)/python -c 'import datasets, sentence_transformers, transformers' # which compiles what they use, a quarter of what is there
else
	$(INSTALL) setuptools
	$(INSTALL) --editable '.[repro,dev,minilm]'
endif
	mkdir -p $(VENV)/etc/jupyter && cp tools/jupyter_server_config.json $(VENV)/etc/jupyter # notebooks are saved as nbdev_clean leaves them
	touch $@

$(VENV)/.stamp-%: $(VENV)/.stamp # what an extra of pyproject.toml adds
	$(INSTALL) --editable '.[$*]'
	touch $@

# What runs and pages follow from: where none of it is newer than the last ones, nothing is to be done.
SOURCES = $(shell find debias_nb nbs/papers experiments tools/some_runs.py -type f ! -path '*/.*' ! -path '*/__pycache__/*')

reports: _runs/reports/.stamp ## make of each kind of planted run one, compare them with the committed ones, and render every page of them

_runs/reports/.stamp: $(VENV)/.stamp $(SOURCES) | .cache
	$(BIN)/python tools/some_runs.py
	$(BIN)/debias-nb agree
	$(BIN)/debias-nb report --fresh
	@touch $@

reports-all: $(VENV)/.stamp | .cache ## the same of every planted run of the first seed: at night, and before a release
	$(BIN)/debias-nb batch --profile planted --seeds 0
	$(BIN)/debias-nb agree
	$(BIN)/debias-nb report --fresh

# A file of tests stays in one process, since its fixtures do. Files go in their order: by number of tests, the longest would be last.
# Files stand side by side already: a test whose trainings may take all cores has one, and trains in its own process.
PYTEST = OMP_NUM_THREADS=1 LOKY_MAX_CPU_COUNT=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder
# `make test SELECTED=` runs the slow ones too.
SELECTED = not slow

test: $(VENV)/.stamp | .cache ## check style, types and imports, run every notebook of the library, and the tests
	$(BIN)/ruff check --quiet
	$(BIN)/pyrefly check --python-interpreter-path $(BIN)/python --summary=none
	$(BIN)/lint-imports --no-cache > .cache/imports.txt || { cat .cache/imports.txt; exit 1; }
	$(BIN)/deptry debias_nb 2> .cache/packages.txt || { cat .cache/packages.txt; exit 1; }
	$(BIN)/zizmor --offline --quiet .github
	OMP_NUM_THREADS=1 LOKY_MAX_CPU_COUNT=1 $(BIN)/nbdev_test
	$(PYTEST) -m "$(SELECTED)"

# Trials of different lengths: whoever is done takes what is left.
test-faults: $(VENV)/.stamp | .cache ## kill runs, fill disks, damage files and cut off downloads
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/faults --numprocesses auto --dist worksteal

# The library's tests in an environment of their own, with no notebook stack. For each Python and for the lowest versions:
#   make test-library LIBRARY_PYTHON=3.13
#   make test-library RESOLUTION=lowest-direct
# UV_TORCH_BACKEND=cpu takes the CPU build of torch where uv reaches PyTorch's own index.
LIBRARY_PYTHON ?= 3.11
RESOLUTION ?= highest
UV ?= $(BIN)/uv
LIBRARY_VENV = $(CACHE)/library/$(notdir $(LIBRARY_PYTHON))-$(RESOLUTION)

$(LIBRARY_VENV)/.stamp: pyproject.toml $(if $(findstring $(BIN)/uv,$(UV)),$(VENV)/.stamp)
	@$(UNCHECKED)
	$(UV) venv --quiet --clear --python $(LIBRARY_PYTHON) $(@D)
	$(UV) pip install --quiet --python $(@D) --resolution $(RESOLUTION) --group library-tests --editable .
	touch $@

test-library: $(LIBRARY_VENV)/.stamp ## test the library alone, without a notebook stack (LIBRARY_PYTHON=3.11 RESOLUTION=highest)
	OMP_NUM_THREADS=1 $(LIBRARY_VENV)/bin/python -m pytest -m "library and not slow" -p no:cacheprovider

# Two builds of torch, each with what it asks for, and one file of what both share. `PIP_FIND_LINKS` names a folder with a CPU build.
COMPILE = env -u PIP_FIND_LINKS -u UV_FIND_LINKS $(BIN)/uv pip compile pyproject.toml --extra repro --extra dev --extra minilm \
	--constraint requirements/constraints.txt --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
	--upgrade --generate-hashes --no-annotate --no-header --quiet
CPU_BUILD = --find-links $${PIP_FIND_LINKS:?must name a folder with a CPU build of torch}

lock: $(VENV)/.stamp ## pin every package of an installation with its hashes
	$(COMPILE) $(CPU_BUILD) --no-emit-package torch --output-file requirements/common.lock
	shared=$$(sed -n 's/^\([^ ]*\)==.*/--no-emit-package \1/p' requirements/common.lock) \
	&& $(COMPILE) $(CPU_BUILD) $$shared --output-file requirements/cpu.lock \
	&& $(COMPILE) $$shared --output-file requirements/cuda.lock

dist: $(VENV)/.stamp-release ## build sdist and wheel of what is committed, check them, and diagnose with each in an empty environment
	$(BIN)/python tools/dist.py

# Another builder of mkdocs.yml is a command that takes its path: make docs BUILDER='zensical build --strict --config-file'
docs: $(VENV)/.stamp-docs | .cache ## build the pages in _docs/ from the notebooks and their kept outputs
	OMP_NUM_THREADS=1 $(BIN)/python tools/docs.py $(BUILDER)

# ONLY='nbs/losses/pair_losses.ipynb nbs/papers/itvreg/table03.ipynb' runs these alone, and makes the pages that follow from them.
sync: $(VENV)/.stamp | .cache ## make the library, the outputs of the notebooks, the reports and README.md anew; ONLY=... of some notebooks
	$(BIN)/nbdev_export
	OMP_NUM_THREADS=1 $(BIN)/python tools/outputs.py $(ONLY)
	$(MAKE) --no-print-directory made

# What is made of the notebooks and the records without a training.
made:
	$(BIN)/nbdev_export
	$(BIN)/nbdev_clean
	$(BIN)/python tools/outputs.py --papers $(ONLY)
	$(if $(ONLY),,$(BIN)/python tools/diagnose_cases.py --pages)

check: $(VENV)/.stamp | .cache ## in a fresh clone of the commit: make library, papers' outputs, pages and README.md anew; git says what differs
	fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT \
	&& git clone --quiet "$(CURDIR)" "$$fresh" && cd "$$fresh" && export PYTHONPATH="$$fresh" OMP_NUM_THREADS=1 \
	&& $(MAKE) --no-print-directory --old-file=$(abspath $(VENV))/.stamp VENV=$(abspath $(VENV)) made \
	&& git add --intent-to-add . && git --no-pager diff --exit-code --stat=200

clean: ## remove the environment, caches, unfinished and finished runs in _runs/, and built pages
	rm -rf $(VENV) .cache .snakemake _runs _docs _proc build dist .pytest_cache .ruff_cache .hypothesis .coverage *.egg-info
	find $(wildcard bench debias_nb nbs tests tools workflow) \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
