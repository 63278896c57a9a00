PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs

.PHONY: venv demo test test-slow check bench trust docs pictures clean
.NOTPARALLEL:

venv: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@

demo: venv
	$(BIN)/freegp demo

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	$(BIN)/pytest -n 2 --dist loadscope --durations 20

test-slow: venv
	$(BIN)/pytest -m slow -n 2 --dist loadscope --durations 20

bench: venv
	$(BIN)/python benchmarks/run.py

trust: venv
	$(BIN)/pip install --quiet pip-audit
	$(BIN)/python tests/trust/run.py

docs: $(DOCS_STAMP)
	$(BIN)/sphinx-build -W --keep-going -n -q -d docs/_build/doctrees docs docs/_build/html
	@echo "open docs/_build/html/index.html"

$(DOCS_STAMP): $(STAMP)
	$(BIN)/pip install --quiet --editable ".[docs]"
	touch $@

pictures: venv
	cd docs/pictures && for name in quickstart classify map_points; do ../../$(BIN)/python ../../examples/$$name.py || exit 1; done

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
