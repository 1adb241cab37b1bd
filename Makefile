# Every target works on a fresh checkout: it makes its own environment in .venv first.
# `make setup PYTHON=python3.12` takes another interpreter.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input
# One thread per test process: more only fight over the cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
TORCH := $(shell grep '^torch==' constraints.txt)

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format types layers unit test-training test-wheel test-campaign test-slurm test-ray test-kubernetes test-pages clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

setup: $(STAMP)  ## make the environment in .venv (does nothing where it is up to date)

# torch comes first and by exact version, so that nothing after it pulls another build of it.
# PIP_CONSTRAINT reaches the build backend too, which `-c` does not.
$(STAMP): pyproject.toml constraints.txt
	@echo "Installing attune and its tools into $(VENV) (a minute or two)"
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@PIP_CONSTRAINT=constraints.txt $(PIP) $(TORCH)
	@PIP_CONSTRAINT=constraints.txt $(PIP) -e '.[train,rows,hub,agent,llm,dashboard,dev]'
	@touch $@

demo: setup  ## tune GLM-4.5 on 128 H200 (on the virtual cluster where there are none)
	@$(BIN)/attune tune --model glm-4.5 --gpu h200 --count 128

test: setup lint types layers unit  ## lint, types, layers and the quick tests

lint: setup  ## formatting and lint, nothing changed
	@$(BIN)/ruff format --quiet --check --diff attune tests benchmarks
	@$(BIN)/ruff check --quiet attune tests benchmarks

format: setup  ## format, and mend what lint can mend
	@$(BIN)/ruff format attune tests benchmarks
	@$(BIN)/ruff check --fix attune tests benchmarks

types: setup  ## mypy
	@$(BIN)/mypy --no-error-summary

layers: setup  ## who may import whom
	@$(BIN)/lint-imports --no-logo > $(VENV)/layers.log || { cat $(VENV)/layers.log; exit 1; }

unit: setup  ## the quick tests, two at a time
	@$(PYTEST) -n2 -m "not training and not wheel and not campaign and not pages and not slurm and not ray and not kubernetes"

test-training: setup  ## real megatron-core training on CPU, layout against layout
	@$(PYTEST) -n2 -m training

test-wheel: setup  ## build the wheel, install it elsewhere, plan with it
	@$(PYTEST) -m wheel

test-campaign: setup  ## whole campaigns, killed and resumed
	@$(PYTEST) -m campaign

test-pages: setup  ## reports and leaderboard in Debian's chromium
	@$(PYTEST) -m pages

test-slurm: setup  ## the Slurm launcher on a real Slurm of 16 virtual nodes (root; installs it)
	@tests/clusters/install_slurm.sh
	@$(PYTEST) -n2 --dist loadfile -m slurm

test-ray: $(VENV)/clients  ## the Ray launcher on a real Ray cluster of two nodes
	@$(PYTEST) -m ray

test-kubernetes: $(VENV)/clients  ## the Kubernetes launcher and its real client; no live cluster
	@$(PYTEST) -m kubernetes

# Heavy, so only these two targets install them.
$(VENV)/clients: $(STAMP)
	@echo "Installing the clients of Ray and Kubernetes (a minute)"
	@PIP_CONSTRAINT=constraints.txt $(PIP) -e '.[ray,kubernetes]'
	@touch $@

clean:  ## remove the environment and what tools left behind
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
