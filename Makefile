# make build, make test, make demo, make bench, make install PREFIX=/usr/local, …; see make help.
PREFIX ?= /usr/local
DESTDIR ?=
SOURCES = $(shell find apps src python tests bench -name '*.cc' -o -name '*.h')

.PHONY: build help test soak check demo bench install deb clean format tidy
.DEFAULT_GOAL := build

build: ## build/dure, dure-agent, dure-trainer, dure-server and build/python (installs missing packages first)
	@tools/setup
	@tools/build dure dure-agent dure-trainer dure-server dure_torch

test: ## every test; installs what they need
	@tools/setup --test
	@tools/run-tests

soak: ## fuzz targets for FUZZ_SECONDS=3600 each, and every end-to-end test ROUNDS=10 times
	@tools/setup --test
	@tools/run-tests --soak

check: build ## the quick tests only: layers, registration, format, unit tests
	@tools/setup --test
	@tools/run-tests --quick

demo: ## train Fashion-MNIST on two local workers, with live output
	@tools/setup --demo
	@tools/build dure dure-agent dure-trainer
	@rm -rf build/demo
	@build/dure run examples/fashion-mnist.yaml --set checkpoint.path=$(CURDIR)/build/demo/checkpoints \
	  --set output=$(CURDIR)/build/demo/model.h5

bench: ## dure beside its peers; fails if a goal is missed
	@tools/setup --test
	@$(MAKE) --no-print-directory build
	@failed=0; for name in launch plan allreduce train sync copy average serve; do echo "bench/$$name"; bench/$$name || failed=1; done; exit $$failed

install: build ## into PREFIX=/usr/local; DESTDIR is put in front
	@tools/install "$(PREFIX)" "$(DESTDIR)"

deb: build ## build/dure_VERSION_ARCHITECTURE.deb, for the Debian that this is
	@tools/setup --package
	@tools/package

format: ## clang-format over every C++ file
	clang-format -i $(SOURCES)

tidy: ## clang-tidy over the C++ files that need no libtorch
	@tools/setup --test
	@tools/check-tidy

clean: ## removes what was built
	rm -rf build build-*

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18
