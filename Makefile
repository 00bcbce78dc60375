# Everyday commands. A pull request runs `make check`. CI (.ci/run) runs README's test line, which is
# `make test` in a new environment, and `make ci`, so that red CI is reproduced with one command.
VENV ?= .venv
BIN = $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup setup-core fix lint types imports deps house words check test fast fuzz torture doctest golden generated conformance \
  docs screens quickstart bench peers wheel release pythons lowest lock audit offline ci

help:  ## list these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

CONSTRAINTS ?= constraints.txt
# Nothing is compiled ahead: Python does so on first use, for what is used. The pip of Python 3.11
# takes half a minute longer to choose the versions.
setup:  ## make .venv with all that the tests need; CONSTRAINTS=requirements.lock: as locked
	python3 -m venv $(VENV)
	$(BIN)/pip install -q -U pip
	$(BIN)/pip install -q --no-compile -e '.[test]' -c $(CONSTRAINTS)

setup-core:  ## make .venv without torch, Ray, browser and servers: enough for `make fast`
	python3 -m venv $(VENV)
	$(BIN)/pip install -q -U pip
	$(BIN)/pip install -q --no-compile -e '.[test-core]'

fix:  ## format, and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint:  ## check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:  ## check types, strictly, and those of the programs of docs/ and of users
	$(BIN)/mypy
	$(BIN)/python -m tests.notebook
	$(BIN)/python -m tests.typed_programs

imports:  ## check the direction of imports, and that none go round in a circle
	$(BIN)/lint-imports --no-cache

deps:  ## check that what is imported is declared, and what is declared is imported
	$(BIN)/deptry ragbench

house:  ## print how large the package is: files, code lines, comments, folders
	$(BIN)/python -m tests.house

words:  ## print names and docstrings that are not plain, comments, words of docs; fails on new ones
	$(BIN)/python -m tests.plain_words
	$(BIN)/python -m tests.docs_words

check: lint types imports deps test  ## everything that must be green before a commit

test:  ## the whole suite with doctests, on every core
	$(BIN)/pytest -q -n auto --maxprocesses=4

fast:  ## the suite without the slow and costly tests, with few examples of each property
	$(BIN)/pytest -q -n auto --maxprocesses=4 -m 'not slow and not costly' --hypothesis-profile=fast

SECONDS_EACH ?= 60
fuzz:  ## give every reader bytes, SECONDS_EACH=60 CPU seconds each; by coverage where atheris is installed
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS_EACH)

MINUTES ?= 2
torture:  ## kill, fault and fuzz; fuzz for MINUTES=2 of the processor; write docs/reliability.md
	$(BIN)/python -m tests.torture --minutes $(MINUTES)

doctest:  ## the examples in docstrings alone
	$(BIN)/pytest -q ragbench

golden:  ## rewrite the golden files, the list of public names among them; review the diff
	$(BIN)/pytest -q --update-golden

generated:  ## rewrite what is generated from the code: JSON Schema, pages of docs/
	$(BIN)/ragbench schema -o configs/ragbench.schema.json
	$(BIN)/ragbench schema summary -o configs/summary.schema.json
	$(BIN)/python docs/generate.py
	$(BIN)/python -m tests.conformance --new

DOCS = build/docs
DOCS_PACKAGES = $(shell sed -n 's/^docs = \["\(.*\)"\]$$/\1/p' pyproject.toml)
docs:  ## build the documentation site into build/site; a broken link or anchor fails
	python3 -m venv $(DOCS)
	$(DOCS)/bin/pip install -q --no-compile '$(DOCS_PACKAGES)'
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

screens:  ## make the pictures of docs/screens.md; needs playwright and Chromium
	nice $(BIN)/python docs/screens.py

conformance:  ## compare everything with its reference implementation; rewrite docs/conformance*.md
	$(BIN)/python -m tests.conformance

quickstart:  ## run the example experiment
	$(BIN)/ragbench run configs/quickstart.yaml

bench:  ## measure against the peers, print ratios, and pass or FAIL of each benchmark
	failed=; for file in $(filter-out benchmarks/peer% benchmarks/local_judges.py,$(shell grep -l __main__ benchmarks/*.py)); do \
	  start=$$(date +%s); if $(BIN)/python $$file; then verdict=pass; else verdict=FAIL; failed="$$failed $$file"; fi; \
	  echo "$$file: $$verdict, $$(($$(date +%s) - start)) s"; done; \
	  test -z "$$failed" || { echo "failed, or missed a bar:$$failed"; exit 1; }

peers:  ## measure the peers, each in an environment of its own, and write the tables of docs/against.md
	nice $(BIN)/python benchmarks/peers.py

wheel:  ## build the wheel and run the quickstart from it alone in a fresh environment
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel .
	python3 -m venv build/wheel/venv
	build/wheel/venv/bin/pip install -q --no-compile build/wheel/*.whl
	build/wheel/venv/bin/ragbench run configs/quickstart.yaml --set output=build/wheel/runs
	build/wheel/venv/bin/ragbench list >/dev/null

RELEASE = build/release
release:  ## build the packages into dist/, check them, and write the parts of an install (SBOM)
	rm -rf dist $(RELEASE)
	python3 -m venv $(RELEASE)
	$(RELEASE)/bin/pip install -q build twine cyclonedx-bom
	$(RELEASE)/bin/python -m build --outdir dist .
	$(RELEASE)/bin/twine check --strict dist/*
	python3 -m venv $(RELEASE)/installed
	$(RELEASE)/installed/bin/pip install -q dist/*.whl
	$(RELEASE)/bin/cyclonedx-py environment --pyproject pyproject.toml -o $(RELEASE)/sbom.json \
	  $(RELEASE)/installed
	$(RELEASE)/installed/bin/ragbench run configs/quickstart.yaml --quiet --set output=$(RELEASE)/runs
	RAGBENCH_TEST_DOWNLOADS=1 $(BIN)/pytest -q tests/test_offline_install.py

# what resolves and audits, apart from what the package is tested with
TOOLS = build/tools
UV = $(TOOLS)/bin/uv
$(UV):
	python3 -m venv $(TOOLS)
	$(TOOLS)/bin/pip install -q uv pip-audit

pythons: wheel  ## the wheel on every other Python that it is for and that is installed here
	.ci/pythons build/wheel/*.whl

# core alone, without what needs a model, a browser or a heavy package
CORE = tests/config tests/data tests/records tests/registry tests/report tests/retrieve tests/stats tests/text \
  tests/types tests/test_json_yaml.py
LOWEST_PYTHON ?= 3.10
lowest: $(UV)  ## the tests of the core with the lowest versions that pyproject.toml allows
	$(UV) pip compile -q pyproject.toml --extra judge --extra parquet --extra documents --extra langchain \
	  --resolution lowest-direct --python-version $(LOWEST_PYTHON) --no-header --no-annotate \
	  -o build/lowest.txt
	$(UV) venv -q --clear -p "$$(.ci/pythons --find $(LOWEST_PYTHON))" build/lowest
	$(UV) pip install -q -p build/lowest -r build/lowest.txt \
	  pytest pytest-xdist hypothesis jsonschema markdown-it-py pytrec-eval-terrier scikit-learn ir-measures \
	  ir-datasets
	PYTHONPATH=$(CURDIR) build/lowest/bin/python -m pytest -q -n 2 -m 'not slow' --hypothesis-profile=fast $(CORE)

lock: $(UV)  ## rewrite requirements.lock: the newest versions that the suite is run with
	$(UV) pip compile -q --upgrade pyproject.toml --extra test -c constraints.txt --universal \
	  --python-version 3.10 --no-header --no-annotate -o requirements.lock

audit: $(UV)  ## look for known weaknesses in what is locked; asks the database of PyPI
	$(TOOLS)/bin/pip-audit --strict --disable-pip --no-deps -r requirements.lock

# The tests of all code that opens a connection, beside the quickstart. The quick ones take every
# path; of the slow ones, these two files look for a model, on a hub and in a folder.
CLIENTS = tests/adapters tests/embed tests/generate tests/llm tests/rerank tests/retrieve \
  tests/score/judge tests/chat_server tests/test_testing.py tests/test_offline.py tests/test_public.py
HUBS = tests/embed/test_checkpoint.py tests/retrieve/test_dense.py

offline:  ## the quickstart and the tests of all clients without a network, where the system allows it
	@if unshare -n true 2>/dev/null; then \
	  unshare -n sh -c 'ip link set lo up 2>/dev/null; \
	    $(BIN)/ragbench run configs/quickstart.yaml --quiet --set output=build/offline && \
	    $(BIN)/pytest -q -n auto --maxprocesses=4 -m "not slow and not costly" --hypothesis-profile=fast $(CLIENTS) && \
	    $(BIN)/pytest -q -m slow --hypothesis-profile=fast $(HUBS)'; \
	else \
	  echo 'offline: unshare -n is not allowed here; tests/test_offline.py watches one process instead'; \
	fi

ci: lint types imports deps docs offline pythons  ## what CI runs after the test line
