# Two commands for a fresh machine: `make demo` and `make test`. Each makes its own virtual environment.
PYTHON ?= python3
BIN = .venv/bin
PYTEST = $(BIN)/python -m pytest -n 2 --dist worksteal
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow test-all test-gpu gpu-packages torture lint docs bench clean

demo: .venv/demo.installed  ## train on the text that comes with Python, then search it by meaning
	$(BIN)/banyan demo

test: lint  ## lint, types, and every test that is not slow, on two cores
	$(PYTEST)

test-slow: .venv/test.installed  ## the tests that take minutes each
	$(PYTEST) -m slow

test-all: test test-slow

test-gpu: .venv/test.installed  ## every test that needs a GPU, on a machine with one
	$(BIN)/python -m benchmarks.gpu_tests

GPU_PYTHON ?= 3.12
GPU_PIP = $(PIP) --python-version $(GPU_PYTHON) --only-binary=:all: --no-deps --no-compile
GPU = numba llvmlite pytest pytest-xdist execnet pluggy iniconfig packaging pygments hypothesis sortedcontainers rich markdown-it-py mdurl
GPU_MORE = scipy matplotlib contourpy cycler fonttools kiwisolver pillow pyparsing python-dateutil six
gpu-packages: .venv/bin/python  ## what test-gpu needs beside torch and Triton, for a machine without a network
	rm -rf build/gpu build/gpu-more && mkdir -p build
	$(GPU_PIP) --target build/gpu $(GPU)
	find build/gpu -name '*.so*' -size +1M -exec strip --strip-unneeded {} +
	rm -rf build/gpu/numba/tests build/gpu/numba/cuda build/gpu/llvmlite/tests
	$(GPU_PIP) --target build/gpu-more $(GPU_MORE)
	tar --create --directory build gpu | xz -6 --threads=0 > build/gpu.tar.xz
	tar --create --directory build gpu-more | xz -6 --threads=0 > build/gpu-more.tar.xz

torture: .venv/test.installed  ## try to break it: an hour on two cores; TORTURE=long tries everything
	$(BIN)/python -m torture --write $(if $(filter long,$(TORTURE)),--long)

lint: .venv/test.installed
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: .venv/docs.installed  ## the site, in build/site: open index.html
	$(BIN)/python -m mkdocs build

bench: .venv/bench.installed  ## README's figures, measured again: each checked for correctness first, then one table of its claims
	$(BIN)/python -m benchmarks

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo.installed: EXTRAS = train,demo
.venv/test.installed: EXTRAS = train,demo,data,sentencepiece,tensorboard,hub,serve,search,scale,onnx,clients,baselines,docs,test
.venv/bench.installed: EXTRAS = train,demo,search,bench
.venv/docs.installed: EXTRAS = docs
.venv/%.installed: pyproject.toml setup.py constraints.txt $(wildcard src/banyan/native/*.[ch]) | .venv/bin/python
	$(PIP) --editable ".[$(EXTRAS)]"
	@touch $@

clean:
	rm -rf .venv build demo-model
