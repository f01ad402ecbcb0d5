# Every target does its own set-up: the virtual environment in .venv, Java, and dagopt's jar.
# Variables are given behind the target, as in `make test PYTEST_ARGS="-k conf -x"`:
#   PYTHON       what .venv is made with; default: the first Python 3.10 to 3.13 found
#   PYTEST_ARGS  more arguments for pytest
#   CORPUS       folder of public event logs
#   TRACES       folder of measured training jobs and workloads
#   MATRIX       Spark lines of test-matrix and jars, such as "4.3 3.5"
#   and those of the benchmarks, which the scripts in jobs/ list.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# A user's own site-packages and settings are not part of this build.
export PYTHONNOUSERSITE := 1
unexport PYTHONPATH PYTHONHOME SPARK_HOME SPARK_CONF_DIR PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYSPARK_SUBMIT_ARGS

VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.dagopt-installed
INSTALLED_TORCH := $(VENV)/.torch-installed
INSTALLED_RAY := $(VENV)/.ray-installed

MATRIX ?= 3.5 4.0 4.1 4.2 4.3
CORPUS ?= eventlogs
TRACES ?= traces
PYTEST_ARGS ?=

.PHONY: help venv java jar jars test test-slow check test-matrix test-corpus demo bench-overlap bench-planner bench-gpu bench-advise bench-predictions wheel clean bench-merge bench-cluster bench-train

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(INSTALLED)  ## Make .venv with dagopt, pyspark and the development tools in it

$(INSTALLED): pyproject.toml setup.py
	@.ci/make-venv $(VENV) $(PYTHON)
	@touch $@

java:  ## Check that Java 17 or later is there; as root on Debian and Ubuntu install it
	@.ci/need-java

jar: $(INSTALLED) java  ## Compile the Spark plugin for the installed pyspark, if it is not current
	@$(PY) -m dagopt.spark.jar

jars: $(INSTALLED) java  ## Compile the plugin for every Spark line of MATRIX
	for line in $(MATRIX); do \
	  home=build/sparks/$$line; \
	  test -e $$home/pyspark/jars || $(PY) -m pip install --quiet --no-deps --target $$home "pyspark==$$line.*"; \
	  $(PY) -m dagopt.spark.jar --spark-home $$home/pyspark; \
	done

test: jar  ## Run the tests that fit in 25 minutes
	$(PY) -m pytest -m "not slow and not soak" $(PYTEST_ARGS)

test-slow: jar $(INSTALLED_TORCH)  ## Run the tests that take minutes, and those that need torch (25 minutes)
	$(PY) -m pytest -m "(slow or torch) and not soak" $(PYTEST_ARGS)

check: $(INSTALLED)  ## Run ruff, mypy, import-linter and the checks of the configuration files
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) .ci/check_config.py

test-matrix: $(INSTALLED) java  ## Run a smoke job on the newest patch of each Spark line of MATRIX
	MATRIX="$(MATRIX)" $(PY) tests/matrix/run.py

test-corpus: $(INSTALLED)  ## Read the public event logs in CORPUS, which are not part of the repository
	CORPUS="$(CORPUS)" $(PY) -m pytest tests/corpus $(PYTEST_ARGS)

demo: jar  ## Run an ETL and a GPU job with dagopt off and on, a sweep, and training jobs; compare, print decisions and times
	$(PY) jobs/demo.py
	$(PY) -m jobs.demo_gpu
	$(PY) -m jobs.demo_sweep
	$(PY) -m jobs.demo_train

bench-overlap: jar  ## Measure overlap on an emulated cluster (needs root; makes network namespaces)
	$(PY) jobs/bench_overlap.py

bench-planner: jar  ## Measure how long planning takes
	$(PY) -m jobs.bench_planner

bench-gpu: jar $(INSTALLED_RAY)  ## Measure GPU stages with an emulated GPU, against stock Spark and Ray Data (an hour)
	$(PY) -m jobs.bench_gpu

bench-merge: jar $(INSTALLED_RAY)  ## Measure merged trials against one trial a Spark task, Optuna and Ray Tune
	$(PY) -m jobs.bench_merge

$(INSTALLED_TORCH): $(INSTALLED)
	@PYTHONWARNINGS=ignore $(PY) -m pip install --quiet --disable-pip-version-check --editable '.[train]'
	@touch $@

# Large, and needed for nothing else.
$(INSTALLED_RAY): $(INSTALLED)
	@PYTHONWARNINGS=ignore $(PY) -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

bench-advise: $(INSTALLED)  ## Measure how fast an event log is read and advised on, and in how much memory
	$(PY) -m jobs.bench_advise

bench-predictions: $(INSTALLED)  ## Compare what advise predicts from logs of bench-overlap and bench-gpu with what these measured
	$(PY) -m jobs.predictions

bench-cluster: $(INSTALLED)  ## Compare schedulers of training jobs on the workloads in TRACES, which are not part of the repository
	TRACES="$(TRACES)" $(PY) -m jobs.bench_cluster

bench-train: $(INSTALLED_TORCH) java  ## Measure training jobs that share fake accelerators, against an equal split of them
	$(PY) -m jobs.bench_train

wheel: jars  ## Build the wheel with a jar for each Spark line, and prove that they are in it
	rm -rf dist build/lib build/bdist.*
	$(PY) -m build --wheel
	test "$$($(PY) -m zipfile -l dist/*.whl | grep -c 'dagopt-spark-.*\.jar')" = "$(words $(MATRIX))"

clean:  ## Remove what was built, but not .venv
	rm -rf build dist dagopt/jvm/jars *.egg-info
