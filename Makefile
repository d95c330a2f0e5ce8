# What this project is built and checked with. `make` alone lists the targets.

GO     ?= go
TOOLS   = $(GO) tool -modfile=internal/tools/go.mod
GOFILES = $$(find . -name '*.go' -not -path './.git/*')

.PHONY: help build check fmt lint test race mutants bench bench-changelog sample ci clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build ./bin/bench, static and with the commit stamped into it
	CGO_ENABLED=0 $(GO) build -buildvcs=auto -trimpath -o bin/bench ./cmd/bench

check: fmt lint test ## all that must hold before a commit: formatting, linters, tests

fmt: ## fail when a file is not formatted
	@bad=$$(gofmt -l $(GOFILES)); if [ -n "$$bad" ]; then echo "not formatted, run gofmt -w on:"; echo "$$bad"; exit 1; fi

lint: ## go vet, staticcheck, ineffassign; the project's own rules are tests of internal/lint
	$(GO) vet ./...
	$(GO) vet -tags mutants ./...
	$(TOOLS) staticcheck ./...
	$(TOOLS) staticcheck -tags mutants ./...
	$(TOOLS) ineffassign ./...

test: ## all tests
	$(GO) test ./...

race: ## the short tests under the race detector
	$(GO) test -race -short ./...

mutants: ## plant known bugs and see that the checks find each
	$(GO) test -tags mutants -run Mutant $(MUTANTS)

# Packages with tests that the build tag turns on; their names begin with TestMutant.
MUTANTS = $$(grep -rl --include='*_test.go' '^//go:build mutants' . | xargs -n1 dirname | sort -u)

bench: ## measure the hot paths; compare two outputs with benchstat
	$(GO) test -run '^$$' -bench . -benchmem ./...

bench-changelog: ## measure each kind of state with the changelog off and on, side by side
	@out=$$(mktemp); $(GO) test ./backend/changelog -run '^$$' -bench Kinds -benchtime 30000x -count 6 | tee "$$out" && \
	$(BENCHSTAT) -col /changelog "$$out"; rm -f "$$out"

BENCHSTAT = $(GO) run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

sample: build ## make docs/sample again: a run of side-by-side, some minutes, best on an idle machine
	./bin/bench run scenarios/side-by-side.yaml >bin/sample.txt
	@set -e; from=$$(sed -n 's|^page  *\(.*\)/report.html$$|\1|p' bin/sample.txt); cd docs/sample; rm -rf plots runs; \
	for f in summary.md report.html bench.txt manifest.json scenario.resolved.yaml plots; do cp -r "../../$$from/$$f" .; done; \
	for r in "../../$$from"/runs/*; do d=runs/$$(basename "$$r"); mkdir -p "$$d"; cp "$$r/plan.json" "$$r/verdicts.json" "$$r"/[crs]*.csv "$$d"; done

ci: ## what the continuous integration runs
	.ci/run

clean: ## remove what was built; results stay
	rm -rf bin
