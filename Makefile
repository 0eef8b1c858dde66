# Everything runs in .venv, which the first command makes. PYTHON chooses the interpreter (3.11 or later).
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
DEMO := .venv/.demo
READY := .venv/.ready

.PHONY: demo test soak lint format bench docs pictures clean

demo: $(DEMO)  ## audit the built-in census network for discrimination by sex
	$(BIN)/evenhand audit census --protected sex --out evenhand-out/demo

test: $(READY) lint  ## check style and types, then run the tests
	$(BIN)/pytest -n auto

soak: $(READY)  ## kills and crowds by the dozen, random examples that are new each time; an hour or so, nothing skipped
	EVENHAND_SOAK=1 EVENHAND_TEST_EVERYTHING=1 $(BIN)/pytest -n auto -m "soak or hypothesis" --hypothesis-profile=others

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## speed against one sample at a time, scaling, memory, start-up
	$(BIN)/python -m bench.speed
	$(BIN)/python -m bench.text_speed
	$(BIN)/python -m bench.own_models
	$(BIN)/python -m bench.plugin_cost

docs: $(READY)  ## the documentation site, in strict mode
	$(BIN)/sphinx-build --fail-on-warning --keep-going -b html docs build/docs

pictures: $(READY)  ## docs/pictures, as a browser shows reports and the pages of the service
	$(BIN)/python -m tools.pictures

# What an audit needs, and no more.
$(DEMO): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) .
	touch $@

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) ".[dev]"
	touch $(DEMO) $@

clean:
	rm -rf .venv build dist evenhand-out .mypy_cache .ruff_cache .pytest_cache .hypothesis
