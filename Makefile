# Everything a developer does with Loupe. Only Go, git and make are needed to build; `make test` says what else it needs.
SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

# The Debian packages that the tests require: a C compiler for cgo programs, debuggers that trace the programs that Loupe observes,
# jq and sqlite3, which examples run, servers of databases, and systemd, which checks the unit. RELEASES=all requires more: another Go compiler, an assembler and an
# emulator for arm64, and more tracers. `make check` and `make generate` compile the C sources of the probes.
# Real programs that the tests look at are not installed: internal/realtarget unpacks them into the user's cache.
TEST_PACKAGES  ?= gcc g++ libc6-dev strace gdb jq sqlite3 redis-server postgresql systemd
WHOLE_PACKAGES ?= gccgo-12 clang-19 qemu-user bpftrace linux-perf libc6-arm64-cross
CHECK_PACKAGES ?= gcc libc6-dev clang-19 llvm-19 libbpf-dev

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
TESTFLAGS   ?=
# The modules for other programs, and all packages: of the main module and of those.
MODULES     := glti internal/codepatch memtrace memtrace/memgrpc trace/raw
PACKAGES    := ./... $(MODULES:%=./%/...)
TEST        ?= $(PACKAGES)
BENCH       ?= .
FUZZTIME    ?= 30s
TORTURE     ?= 1m
# Releases of Go that test targets are built with: few, all, or some as in "1.12 1.27". With each, those that have many builds, such as one
# for each version of a library and each release, have all of these, which takes hours. make truth and make torture have each.
RELEASES    ?= few
# Tests of package loupe that choose the engines themselves, or use none: they need not run once more with engine inline.
INLINE_ANYWAY = ^(TestTorture|TestInline|TestForeign|TestClose(Frozen|BesideDebugger)|TestBlockedInNamespace|TestTwoEngines|TestSingleUprobes|TestLibrary|TestCoarse|TestAlloc|TestCPU|TestWall|TestHeapProfile|TestContentionProfiles|TestRealHeap|TestProfileOff|TestSiteAllocs|TestMemory(Events|Recorded|Only)$$)
# With few releases, those of the rest that run once more with engine inline: of each subject the ones that compare most.
INLINE_FEW = ^(TestTruth|TestSpan|TestCounts|TestRecord|TestStacks|TestSample|TestMinBlock|TestGoroutineFilter|TestExec|TestFork|TestKill|TestTargetDies|TestBooks)
ARCH        ?= arm64
KERNEL      ?= linux-image-$(ARCH)

.PHONY: build generate test testdeps checkdeps check check-code check-layout check-library check-probes tidy bench fuzz pages truth torture overlay-matrix overlay-judge overlay-windows kube soak setclock emulated hostile clean help

## build: the static loupe executable, bin/loupe
build:
	CGO_ENABLED=0 go build -trimpath -o bin/loupe ./cmd/loupe

## generate: the probes' eBPF objects and machine code from their C sources
generate: checkdeps
	go generate ./internal/probe/... ./internal/perf ./internal/testsets/... ./internal/spans/...

## test: all tests, those of live events with both engines (most of them with RELEASES=all), with targets of a few Go releases or RELEASES=all; lists the tests that were skipped and why; with CI=true none may be
test: export LOUPE_RELEASES = $(RELEASES)
# As make build, so that packages are compiled once. A comment after the value would add a space to it.
test: export CGO_ENABLED = 0
test: testdeps
	{ go test -json -vet=off -ldflags=-w -timeout 45m $(TESTFLAGS) $(TEST) && first=0 || first=$$?; \
	  $(if $(filter ./... .,$(TEST)),go test -json -vet=off -ldflags=-w -timeout 45m $(if $(filter few,$(RELEASES)),-run '$(INLINE_FEW)') -skip '$(INLINE_ANYWAY)' $(TESTFLAGS) . -engine inline &&) exit $$first; } | go run ./internal/testreport

## testdeps: installs the packages that the tests require if run as root, otherwise prints the command
testdeps:
	scripts/testdeps $(TEST_PACKAGES) $(if $(filter all each,$(RELEASES)),$(WHOLE_PACKAGES))

## checkdeps: the same for check and generate
checkdeps:
	scripts/testdeps $(CHECK_PACKAGES)

## check: format, vet, staticcheck, and that generated files are current; quickest with make -j2 --output-sync check
check: check-code check-layout check-library check-probes

# As make test, so that packages are compiled once.
check-%: export CGO_ENABLED = 0

check-code:
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi
	go vet $(PACKAGES)
	go run $(STATICCHECK) $(PACKAGES)

check-layout:
	go run ./internal/gobin/layout/gen -check -latest

check-library:
	go run ./internal/gobin/library/gen -check -latest

check-probes: checkdeps
	scripts/check-probes

## tidy: go mod tidy for all modules, each with the others' sources, whatever version it requires
tidy:
	for m in . $(MODULES); do \
		go -C $$m mod edit $(foreach r,$(MODULES),-replace github.com/loupe-go/loupe/$(r)=$(CURDIR)/$(r)); \
		go -C $$m mod tidy || status=$$?; \
		go -C $$m mod edit $(MODULES:%=-dropreplace github.com/loupe-go/loupe/%); \
	done; exit $${status:-0}

## bench: the benchmarks, BENCH=regexp chooses
bench:
	go test -run '^$$' -bench '$(BENCH)' -benchmem $(PACKAGES)

## fuzz: every fuzz test for FUZZTIME
fuzz:
	@go list $(PACKAGES) | while read -r pkg; do \
		go test -list '^Fuzz' "$$pkg" | { grep '^Fuzz' || true; } | while read -r name; do \
			echo "$$pkg $$name"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$pkg"; \
		done; \
	done

## pages: the flame graph pages in a headless Chromium, which must be installed; PAGES=DIR keeps the pages and screenshots
pages:
	$(if $(PAGES),mkdir -p $(PAGES) && )go test -tags browser -run TestBrowser -v ./internal/export/flamegraph -args $(if $(PAGES),-pages $(abspath $(PAGES)))

## truth: the long differential tests against the runtime's own execution tracer and the kernel's accounts, and long recordings; an hour or more
truth torture hostile: RELEASES := all
truth torture: export LOUPE_RELEASES = each
truth: testdeps
	go test -run '^TestTruth' -count 20 -timeout 2h .
	go test -run 'TestAllocs.*Truth|TestCPUPlainTruth' -count 3 -timeout 1h .
	go test -run TestRecordUnderLoad -timeout 1h ./cmd/loupe -record.for 10s
	go test -run TestBlockedOutput -timeout 1h ./cmd/loupe -outputs.all
	go test -run TestCPUTruth -v -timeout 1h . -cpu.all
	go test -run TestBooks -v -timeout 1h . -books.all -books.for 2s
	go test -run TestBooks -v -timeout 1h . -books.all -books.for 2s -engine inline
	go test -run TestSpansRealServers -v -timeout 1h . -servers.all
	go test -run TestSpansRealServers -v -timeout 1h . -servers.all -engine inline

## torture: attaches and detaches engine inline repeatedly, for TORTURE in each of some 40 busy programs; kills tracers; with 10s or more also at each system call, attaches each engine 1,000 times, and counts the spans of 100,000 requests
torture: testdeps
	go test -run 'Torture|KilledAtCall' -v -count 1 -timeout 3h . -torture $(TORTURE)
	LOUPE_TORTURE=$(TORTURE) go test -run Torture -v -count 1 -timeout 2h ./internal/ptrace

## overlay-matrix: the scripted programs and the agents of the tool interface with Go 1.21 to 1.27, each also with -race, without optimizations, and with cgo; an hour if nothing is cached
overlay-matrix:
	LOUPE_RELEASES=all go test -run 'TestPrograms|TestGlti|TestAgent|TestGoAgents|TestLinkedAgent|TestLoader' -count 1 -v -timeout 3h ./internal/overlay -overlay.matrix -overlay.storm 10s

## overlay-judge: the Go project's own tests (of runtime, sync, net/http and others) with the patched runtime, for JUDGE=releases; some 3 minutes each
JUDGE ?= 1.21.13 1.26.11 1.27.4
overlay-judge:
	scripts/overlay-judge $(JUDGE)

## overlay-windows: the scripted programs of the tool interface as programs for Windows, with Wine, for WINDOWS=releases
WINDOWS ?= 1.21.13 1.27.4
overlay-windows:
	scripts/overlay-windows $(WINDOWS)

## kube: the tests that need the API server of Kubernetes or Helm, which it builds first: 10 minutes or more if they are not cached, and some GB in the caches of the go command
KUBE_TESTS = ^Test(Server|APIServer|AgentKubernetes|Manifests|ManifestsAccepted|ManifestsCurrent|Lint|ConfigMap)$$
kube: export LOUPE_RELEASES = all
kube: export LOUPE_KUBE = yes
kube: export CGO_ENABLED = 0
kube: testdeps
	go test -json -vet=off -ldflags=-w -timeout 60m -count 1 -run '$(KUBE_TESTS)' ./internal/testkube ./internal/agent/kube ./internal/agent ./deploy | go run ./internal/testreport

## soak: the node agent observes 50 processes with 100,000 goroutines for SOAK; one process is replaced each second
SOAK ?= 30m
soak:
	go test -run '^TestSoak$$' -count 1 -v -timeout 24h ./internal/agent -soak $(SOAK)

## setclock: sets the clock of this machine forward by 20 seconds, and back, while the node agent works
setclock:
	go test -tags setclock -run '^TestSetClock$$' -count 1 -v ./internal/agent

## hostile: the tests under unusual conditions, one by one and then together: nohup, no stdin, no terminal, no TERM, umask 077, another time zone and locale, busy loops; TEST selects packages
hostile: testdeps
	scripts/hostile $(TEST)

## emulated: what has to do with the kernel, on an emulated machine: ARCH=arm64 or amd64, KERNEL=file or Debian package; CONTRIBUTING.md says more
emulated:
	go run ./internal/testvm -arch $(ARCH) -kernel $(KERNEL) -go all -limit 40m -whole 3h \
	  ./internal/ptrace -test.v -test.timeout 40m -- \
	  ./internal/probe/uprobe -test.v -- \
	  . -test.v -test.timeout 40m -test.run 'TestTruth$$' -truth.untimed \
	  $(if $(filter arm64,$(ARCH)),-- ./internal/probe/inline -test.v -- \
	  . -test.v -test.timeout 40m -test.run 'TestTruth$$|TestTorture|TestInlineKilled' -truth.untimed -torture 5s -engine inline)

## clean: remove what make built
clean:
	rm -rf bin

## help: this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)
