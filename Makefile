.DEFAULT_GOAL := help
.PHONY: help check build test race sim lint fmt interop conformance fuzz bench bench-check generate vuln

# golangci-lint and govulncheck, in the versions of tools/go.mod.
TOOL = go tool -modfile=$(CURDIR)/tools/go.mod
# The linters remember findings by path: those of another checkout are not ours.
export GOLANGCI_LINT_CACHE = $(CURDIR)/.cache/golangci-lint
# The product, and the tests that are modules of their own.
MODULES = . $(patsubst %/go.mod,%,$(wildcard test/*/go.mod))
# How long each fuzz target runs.
FUZZTIME ?= 20s
# How many schedules the simulator plays: of the machines, and of the wire.
MACHINES ?= 1000000
WIRE ?= 20000
# More flags for the tests with foreign clients and servers.
INTEROP ?=
# What the simulator has to find: the machines, broken in each of the known ways.
MUTATIONS ?= go test -count=1 -vet=off -tags mutations -run TestMutationsAreCaught -v -timeout 30m ./test/sim
# And the wire, with the edges broken: all known ways, or those whose rule matches.
BITES ?= .
# The entries of internal/repocheck/testdata/identity.txt and compose.txt whose mutations the unit tests have to find.
IDENTITY ?= .*

needs-%:
	@.ci/needs $(subst -, ,$*)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

# One after the other: what is missing is said first, and nothing competes with
# tests that have deadlines.
.NOTPARALLEL:

check: MACHINES = 50000
check: WIRE = 1000
check: BITES = refus
check: INTEROP = -more
check: needs-cc-npm-interop-more lint race sim interop conformance bench-check ## what CI runs: everything that must be green before a merge

# Without cgo it is one file that runs on any Linux of its architecture, and has no C
# library in memory. Without the tables of debuggers it has two thirds of the size; stack
# traces need none of them.
build: ## bin/signalbox
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/signalbox ./cmd/signalbox

# Tests make much garbage and live short; vet is part of lint. Without cgo, which the
# race detector has, what is tested is linked and starts in less time.
test: ## unit tests, in seconds; transcripts in some pairs of modes
	CGO_ENABLED=0 GOGC=400 go test -short -parallel 8 -vet=off ./...

# The last two tests judge memory and time, and run alone and without the race detector.
race: needs-cc ## unit tests with the race detector, those of the server over HTTP/2, too; transcripts in every pair of modes; a test under ulimit -v, and one of a time
	TRANSCRIPTS=all GOGC=400 go test -race -vet=off -timeout 20m ./... && GOGC=400 go test -race -vet=off -timeout 10m ./server -http2 && go test -count=1 -vet=off -tags memory -run TestAddressSpaceSuffices -v ./cmd/signalbox && go test -count=1 -vet=off -run TestViewIsMadeInTime -v .

sim: ## MACHINES (1000000) and WIRE (20000) schedules of the simulator, and its mutations: of the edges those that match BITES (all); those of identity and of composition, which unit tests find, that match IDENTITY (all)
	go run ./test/sim/run -n $(MACHINES) && GOGC=400 go test -count=1 -vet=off -timeout 30m ./test/sim/wire -v -run 'TestSchedules$$' -sim.schedules=$(WIRE) && $(MUTATIONS) && GOGC=400 go test -count=1 -vet=off -timeout 90m ./test/sim/wire -v -run 'TestBites$$/$(BITES)' -sim.bites=20000 && go test -count=1 -vet=off -timeout 30m ./internal/repocheck -v -run 'TestMutationsOfEntries$$' -entries='$(IDENTITY)'

# One package has code for one architecture alone.
lint: ## format, vet, linters, tidy go.mod; changes nothing
	@set -e; for m in $(MODULES); do (set -x; cd $$m; $(TOOL) golangci-lint fmt --diff; go vet ./...; $(TOOL) golangci-lint run --allow-parallel-runners; go mod tidy -diff); done; set -x; GOARCH=arm64 go vet ./internal/jsonscan

fmt: ## format all Go code
	@set -e; for m in $(MODULES); do (set -x; cd $$m; $(TOOL) golangci-lint fmt); done

interop: needs-interop ## our OAuth client against other implementations, sign-in at real identity providers; the official apps in their bridge; real clients against real servers, direct and through signalbox; INTEROP=-more adds those in Rust and Java, INTEROP=-profile goes through a profile, INTEROP=-attach uses attach in place of serve --stdio
	cd test/oracle && go test -count=1 . && cd ../identity && go test -v -count=1 -timeout 20m ./... && cd ../apps && go test -v -count=1 -timeout 20m . && cd ../interop && go test -v -count=1 -timeout 30m . $(INTEROP)

conformance: needs-npm ## the official suite: against our server, our client, and through signalbox
	cd test/conformance && go test -v -count=1 -timeout 20m -parallel 2 ./...

fuzz: ## each fuzz target for FUZZTIME (20s)
	.ci/fuzz $(FUZZTIME)

bench: build ## what the gateway costs, into docs/performance.md: almost an hour; GROUP=calls,lists measures these alone; GROUP=before BEFORE=path compares with another version's program
	cd test/bench && go run . -program $(CURDIR)/bin/signalbox -update $(CURDIR)/docs/performance.md $(if $(BEFORE),-before $(abspath $(BEFORE))) $(if $(GROUP),-group $(GROUP))

bench-check: build ## the short form of bench: which marks ratios and counts miss, and whether one became worse; GROUP as above
	cd test/bench && go test -timeout 2m ./... && go run . -program $(CURDIR)/bin/signalbox -short $(if $(GROUP),-group $(GROUP))

generate: ## everything that is generated and committed
	go generate ./...

vuln: ## known vulnerabilities in what we import; needs the network
	$(TOOL) govulncheck ./...
