# Front door. `make help` lists the targets; `make demo` and `make test` need nothing
# but a fresh Debian 12: both call deploy/setup.sh first, which is quick when nothing is missing.
SHELL := /bin/bash
# A command of a pipe that fails fails the recipe.
.SHELLFLAGS := -eu -o pipefail -c
JOBS ?= $(shell nproc)
# Most tests wait for something most of the time.
TEST_JOBS ?= $(shell echo $$(($(JOBS) * 2)))
CMAKE_BUILD := cmake --build
CTEST := ctest --output-on-failure --no-tests=error

.DEFAULT_GOAL := help
.PHONY: help setup build demo test unit sim contract e2e fuzz fuzz-replay fuzz-coverage asan tsan tsan-all \
        release lint format tidy clean ci coverage nightly bench

help: ## this list
	@awk -F':.*## ' '/^[a-z][a-z0-9 -]*:.*## / {printf "  %-24s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what the build and the tests need (Debian 12; root or sudo)
	@deploy/setup.sh build test

build/build.ninja: CMakeLists.txt CMakePresets.json
	@cmake --preset dev

build: ## set up, then build everything into build/ (programs in build/bin)
	@deploy/setup.sh build
	@$(MAKE) --no-print-directory build/build.ninja
	@$(CMAKE_BUILD) build -j $(JOBS)

demo: build ## run the whole product on this machine and load a page through it (CHECK=1: then stop)
	@deploy/setup.sh build demo
	@tests/e2e/demo.sh

test: setup ## every test that `make ci` relies on: unit, simulation, contract, end to end, corpus replay
	@$(MAKE) --no-print-directory build
	@cd build && $(CTEST) -j $(TEST_JOBS)

unit sim contract e2e: setup ## one kind of test: unit, sim, contract or e2e
	@$(MAKE) --no-print-directory build
	@cd build && $(CTEST) -j $(TEST_JOBS) -L '^$@$$'

fuzz-replay: build ## the committed corpora through every fuzz target
	@cd build && $(CTEST) -j $(TEST_JOBS) -L fuzz-replay

FUZZ_SECONDS ?= 60
fuzz: ## every fuzz target for FUZZ_SECONDS (60) with clang 19; the planted bug must be found
	@deploy/setup.sh build check
	@cmake --preset fuzz -DTMESH_FUZZ_SECONDS=$(FUZZ_SECONDS)
	@$(CMAKE_BUILD) build/fuzzing -j $(JOBS)
	@$(CMAKE_BUILD) build/fuzzing --target fuzz-planted
	@$(CMAKE_BUILD) build/fuzzing -j 1 --target fuzz-run

fuzz-coverage: ## line coverage of the committed corpora; a target below its floor fails (quick)
	@deploy/setup.sh build check
	@cmake --preset fuzz-coverage
	@$(CMAKE_BUILD) build/fuzz-coverage -j $(JOBS) --target fuzz-replay-programs
	@fuzz/coverage.py build/fuzz-coverage

SKIP ?= ^$$
asan: setup ## everything again under AddressSanitizer, LeakSanitizer and UBSan (SKIP='names': without these tests)
	@cmake --preset asan
	@$(CMAKE_BUILD) build/asan -j $(JOBS)
	@cd build/asan && $(CTEST) -j $(TEST_JOBS) -E '$(SKIP)'

tsan: setup ## what has more than one thread under ThreadSanitizer, without the real programs
	@cmake --preset tsan
	@$(CMAKE_BUILD) build/tsan -j $(JOBS) --target threaded-tests
	@cd build/tsan && $(CTEST) -j $(TEST_JOBS) -L '^threads$$'

tsan-all: setup ## everything under ThreadSanitizer
	@cmake --preset tsan
	@$(CMAKE_BUILD) build/tsan -j $(JOBS)
	@cd build/tsan && $(CTEST) -j $(TEST_JOBS)

coverage: setup ## line coverage of the tests (build/coverage)
	@cmake --preset coverage
	@$(CMAKE_BUILD) build/coverage -j $(JOBS)
	@cd build/coverage && $(CTEST) -j $(TEST_JOBS)

release: ## the programs as they are shipped, in build/release/bin
	@deploy/setup.sh build
	@cmake --preset release
	@$(CMAKE_BUILD) build/release -j $(JOBS)

SOURCES = git ls-files --cached --others --exclude-standard 'core/*' 'cpp/*' 'cmd/*' 'tests/*' 'fuzz/*' | grep -E '\.(c|h|cpp|hpp)$$'

bench: ## measure beside direct, a bare relay chain and other proxies; BENCH_ONLY, BENCH_SECONDS (build/bench)
	@deploy/setup.sh build
	@deploy/setup.sh bench || echo "bench: going on without what could not be installed"
	@cmake --preset release -DTMESH_BENCH=ON
	@$(CMAKE_BUILD) build/release -j $(JOBS)
	@TMESH_BIN=$(CURDIR)/build/release/bin BENCH_OUT=$(CURDIR)/build/bench tests/bench/bench.py

format: ## rewrite the sources in the project's style
	@$(SOURCES) | xargs clang-format-19 -i

lint: ## check formatting, shell scripts and white space
	@$(SOURCES) | xargs clang-format-19 --dry-run -Werror
	@git ls-files '*.sh' .ci/run | xargs shellcheck
	@git diff --check

tidy: build ## clang-tidy over what the build compiled (QUICK=quick: the static analyzer looks at C only)
	@deploy/setup.sh check
	@tests/tidy/clang_tidy.sh build $(QUICK)

clean: ## remove build/
	@rm -rf build

nightly: ## the long form: SEEDS (100000) seeds of the simulation, long end-to-end tests, fuzz, clang-tidy, ASan, TSan
	@JOBS=$(JOBS) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/nightly.sh

ci: ## what .ci/run runs: make test, lint, tidy, fuzz-coverage, ASan+UBSan, TSan
	@.ci/run
