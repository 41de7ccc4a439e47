# SPDX-License-Identifier: Apache-2.0
# A thin front of meson and ninja: each target is the only command that it needs.

BUILD ?= build
PREFIX ?= /usr/local
PYTHON ?= $(shell scripts/python.sh)
TORCH ?= 2.13.0
TORCH_INDEX ?=
FUZZ_SECONDS ?= 60
NINJA_FLAGS ?=
SEED ?= 1
BENCH ?=
COUNT ?= 1000

.PHONY: all demo check check-torch check-long test bench wheel w1 fuzz lint accuracy install clean help golden
.DEFAULT_GOAL := all

$(BUILD)/build.ninja:
	@scripts/deps.sh build
	@meson setup $(BUILD) --buildtype=release -Ddebug=true --prefix=$(PREFIX) >/dev/null

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) $(NINJA_FLAGS) --quiet lockstep liblockstep.so

demo: all
	@ninja -C $(BUILD) $(NINJA_FLAGS) --quiet live_job
	@scripts/demo.sh $(BUILD)/lockstep

test: $(BUILD)/build.ninja
	@scripts/deps.sh build test
	@ninja -C $(BUILD) $(NINJA_FLAGS) --quiet
	@meson test -C $(BUILD) --no-rebuild --no-suite slow --no-suite whole --print-errorlogs

check:
	@scripts/deps.sh build test check
	@scripts/check.sh

check-torch: all
	@scripts/deps.sh python
	@ninja -C $(BUILD) $(NINJA_FLAGS) --quiet liblockstep.so python/_lockstep.abi3.so tests/print_checkpoints
	@BUILD=$(BUILD) TORCH=$(TORCH) TORCH_INDEX=$(TORCH_INDEX) scripts/check-torch.sh

check-long:
	@scripts/deps.sh build test check long
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/check-long.sh

lint: all
	@scripts/deps.sh build test check
	@scripts/lint/all.sh $(BUILD)/lockstep

bench: all
	@scripts/deps.sh python
	@ninja -C $(BUILD) $(NINJA_FLAGS) --quiet liblockstep.so python/_lockstep.abi3.so
	@scripts/bench.sh $(BUILD)/lockstep $(BENCH)

wheel:
	@scripts/deps.sh build python
	@scripts/wheel.sh

w1: all
	@$(PYTHON) bench/w1.py $(BUILD)/lockstep

fuzz:
	@scripts/deps.sh build test check
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh

golden: all
	@$(PYTHON) tests/golden.py --update $(BUILD)/lockstep

accuracy: all
	@$(PYTHON) tests/gen/accuracy.py --lockstep $(BUILD)/lockstep --seed $(SEED) --count $(COUNT) --most 12960 -v
	@$(PYTHON) tests/gen/accuracy_hangs.py --lockstep $(BUILD)/lockstep --seed $(SEED) --count $(COUNT) -v

install: all
	@meson setup --reconfigure $(BUILD) --prefix=$(PREFIX) >/dev/null
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --quiet

clean:
	@rm -rf $(BUILD) build-*

help:
	@echo 'make               build/lockstep (installs what is missing to build: apt, as root or by sudo)'
	@echo 'make demo          diagnose the samples that come with the project, and a job that runs, with a slow rank'
	@echo 'make test          the edit loop: all quick tests'
	@echo 'make check         everything that needs no PyTorch: gcc, clang, sanitizers, cases, lint'
	@echo 'make check-torch   the tests that run a real training job, in a venv .venv-torch-VERSION;'
	@echo '                   TORCH=2.13.0 is the version, TORCH_INDEX=URL the package index of the build'
	@echo '                   (the CPU one is enough)'
	@echo 'make check-long    analyzers, fuzzing by the minute (FUZZ_SECONDS=60 a target), long cases'
	@echo 'make lint          format, includes, headers, options against man page and completion, schema'
	@echo 'make bench         figures, each beside its rival in the same run; BENCH="judge-large" only those'
	@echo 'make wheel         dist/lockstep-VERSION-cp310-abi3-PLATFORM.whl: library, Python package and program'
	@echo 'make w1            how well step records keep the durations of kernels, as a table'
	@echo 'make fuzz          the libFuzzer targets, FUZZ_SECONDS each'
	@echo 'make accuracy      right answers about simulated slow jobs, by cause and impact; SEED=1 COUNT=1000'
	@echo 'make golden        write tests/golden/ anew from the present outputs'
	@echo 'make install       PREFIX=/usr/local, DESTDIR='
	@echo 'make clean'
