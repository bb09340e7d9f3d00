# make build, make test, make demo, make bench, make install PREFIX=/usr/local, …; see make help.
PREFIX ?= /usr/local
DESTDIR ?=
SOURCES = $(shell find apps src python tests bench -name '*.cc' -o -name '*.h')

.PHONY: build help test check demo bench install clean format tidy
.DEFAULT_GOAL := build

build: ## build/dure, dure-agent, dure-trainer and build/python (installs missing packages first)
	@tools/setup
	@tools/build dure dure-agent dure-trainer dure_torch

test: ## every test; installs what they need
	@tools/setup --test
	@tools/run-tests

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
	@failed=0; for name in launch plan allreduce train sync; do echo "bench/$$name"; bench/$$name || failed=1; done; exit $$failed

install: build ## into PREFIX=/usr/local; DESTDIR is put in front
	install -D -m 755 build/dure $(DESTDIR)$(PREFIX)/bin/dure
	install -D -m 755 build/dure-agent $(DESTDIR)$(PREFIX)/bin/dure-agent
	install -D -m 755 build/dure-trainer $(DESTDIR)$(PREFIX)/bin/dure-trainer
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	build/dure completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/dure
	install -d $(DESTDIR)$(PREFIX)/share/zsh/site-functions
	build/dure completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_dure
	install -d $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	build/dure completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/dure.fish

format: ## clang-format over every C++ file
	clang-format -i $(SOURCES)

tidy: ## clang-tidy over the C++ files that need no libtorch
	@tools/setup --test
	@cmake -S . -B build-tidy -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DDURE_UNITY=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON --log-level=NOTICE
	clang-tidy -p build-tidy --quiet $(shell grep -Lr --include='*.cc' 'include [<"]\(torch\|train\|group\)/' apps src)

clean: ## removes what was built
	rm -rf build build-*

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18
