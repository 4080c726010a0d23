# A change must pass `make lint build test`. `make servers` brings what the tests need, once.

MODULES     := $(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path '*/.*/*' | sort))
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 10s
LENGTH      ?= 2m

# each runs a command in every module: the library's, and those of the examples, benchmarks and ORMs.
each = @set -e; for m in $(MODULES); do echo "$$m: $(1)"; (cd $$m && $(1)); done

.PHONY: build lint test bench fuzz torture matrix servers

build:
	$(call each,go build ./...)

lint:
	@echo gofmt -l .; test -z "$$(gofmt -l . | tee /dev/stderr)"
	$(call each,go vet ./...)
	$(call each,$(STATICCHECK) ./...)
	$(call each,go mod tidy -diff)

test:
	go test -race -shuffle=on ./...
	cd jobs/schedulers && go test -race -shuffle=on ./...
	cd compat && go test -race -shuffle=on ./...
	@test ! -f examples/go.mod || (set -x; cd examples && go test -race -shuffle=on ./...)

bench:
	go test -run '^$$' -bench . -benchmem ./...
	cd bench && go run ./guard
	cd bench && go run ./locks
	cd bench && go run ./jobs
	cd bench && go run ./thousands -picture ../docs/thousands.svg

fuzz:
	scripts/fuzz.sh $(FUZZTIME)

# All that the parts promise, while workers, servers and network fail at random: docs/proof.md.
torture:
	go test ./internal/torture -count=1 -v -timeout=0 -torture.length=$(LENGTH)

# The suite on each server of the README's table: `make matrix`, or `make matrix ROWS="postgres-13 mysql"`.
matrix:
	scripts/matrix.sh $(ROWS)

servers:
	scripts/servers.sh
