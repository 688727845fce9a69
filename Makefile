# What a developer and CI run. `make check` is the whole gate.
GO ?= go
TOOL = $(GO) tool -modfile=tools/go.mod
LDFLAGS = -s -w -X main.version=$(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.PHONY: build test check demo lint fmt tidy vet wasm matrix cassettes aimock fuzz bench clean screens

build: bin/rivumi

bin/rivumi: FORCE
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -o $@ ./cmd/rivumi

FORCE:

# The main job, with no key and no network: a sample repository, a run, a verified patch.
demo: build
	./bin/rivumi demo

test:
	$(GO) test -race -timeout 20m ./...

check: fmt tidy vet lint wasm test matrix cassettes aimock

fmt:
	@out=$$($(TOOL) gofumpt -l .); if [ -n "$$out" ]; then echo "gofumpt would change:"; echo "$$out"; exit 1; fi

tidy:
	$(GO) mod tidy -diff

vet:
	$(GO) vet ./...

lint:
	$(TOOL) golangci-lint run ./...

# The core is built for the edge as well, with nothing of the host in it.
wasm:
	GOOS=wasip1 GOARCH=wasm $(GO) build -o /dev/null ./internal/control

# Every attack with the controls that hold it switched off, which must let it through.
matrix:
	$(GO) test -timeout 15m -run 'TestFull(EveryRowTurnsRed|GroupTellsMemory)' ./internal/sandbox/proc

# Recorded provider traffic through the adapters; a module of its own keeps the recordings out of ours.
cassettes:
	cd test/cassettes && $(GO) test -v ./...

# An independent model server over real HTTP; needs node and npm.
aimock:
	cd test/aimock && $(GO) test -v ./...

# Pictures of screens for the docs, from what an emulated terminal shows.
screens:
	$(GO) test ./internal/tui -run TestRecordScreens -screens $(CURDIR)/docs/screens

# Ten seconds for every fuzz target.
fuzz:
	./test/fuzz.sh 10s

# rivumi beside the floor program, ratios from one run.
bench: build
	$(GO) run ./bench

clean:
	rm -rf bin dist
