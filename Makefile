# Two commands do the set-up and the work: `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONHASHSEED ?= 0

.PHONY: run test coverage nightly smoke stress oldest check lint bench docs clean

run: .venv ## train the embedded default (GEQ on scikit-learn's digits) and draw it
	$(BIN)/geq train

test: .venv ## lint, types and every test
	$(MAKE) lint
	GEQ_TORCH_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not nightly"

coverage: .venv ## the same tests with the lines and branches they reach, in twice the time
	GEQ_TORCH_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not nightly" --cov --cov-report=term:skip-covered

nightly: .venv ## what takes too long for every day: the whole contract of the largest models
	GEQ_TORCH_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m nightly

smoke: .venv ## every table and figure of the papers, end to end, at the smallest scale
	$(BIN)/geq reproduce all --scale smoke --results results --runs runs

stress: .venv ## attacks on everything, the short form: what was tried, what was survived
	GEQ_TORCH_THREADS=1 $(BIN)/python -m stress

oldest: .venv ## the fast tests with the oldest versions that the metadata allows (torch stays; warnings of old libraries are no errors)
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade pip
	.venv-oldest/bin/python -m pip install --quiet torch==2.13.0
	$(BIN)/python tests/reliability/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/constraints.txt --editable '.[dev]' --editable './papers[dev]' --editable ./demo
	GEQ_TORCH_THREADS=1 .venv-oldest/bin/python -m pytest -n 2 --dist worksteal -m "not slow and not nightly" -q -o filterwarnings=default

check: .venv ## what to run before each commit: lint, types, two cases of each fast test
	$(MAKE) lint
	GEQ_TORCH_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not nightly" --cases 2 -q

lint: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv ## ratios against peers, in one run
	$(BIN)/geq bench

docs: .venv ## build the site into site/ and test the documentation
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	GEQ_TORCH_THREADS=1 $(BIN)/python -m pytest -q tests/documentation tests/examples

# torch comes first and alone, so that a machine with a local CPU build takes that one; then everything at
# the versions of constraints.txt. The stamp makes an interrupted installation start again.
.venv: .venv/.stamp
.venv/.stamp: pyproject.toml papers/pyproject.toml demo/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --editable './papers[dev]' --editable ./demo --constraint constraints.txt
	touch $@

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache htmlcov .coverage
