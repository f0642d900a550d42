# Plinth: build, try and test. `make help` lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
REVISION := $(shell git rev-parse HEAD 2>/dev/null)
# What the Kubernetes libraries say of themselves: in user agents our version, in the metric
# kubernetes_build_info their own. By the latter feature gates are decided too, so it cannot
# be ours.
K8S     := v1$(patsubst v0%,%,$(shell awk '$$1 == "k8s.io/component-base" {print $$2}' go.mod))
LDFLAGS  = -s -w -X plinth.dev/plinth/buildinfo.Version=$(VERSION) -X plinth.dev/plinth/buildinfo.Revision=$(REVISION) \
	-X k8s.io/client-go/pkg/version.gitVersion=$(VERSION) -X k8s.io/client-go/pkg/version.gitCommit=$(REVISION) \
	-X k8s.io/component-base/version.gitVersion=$(K8S) -X k8s.io/component-base/version.gitCommit=
# grpcnotrace leaves out a page of gRPC's that nobody looks at. It draws in templates,
# with which the linker has to keep every method there is: a third of a program.
# The same bytes whatever the environment says, and programs that every machine of a platform runs.
BUILD    = CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOFIPS140=off go build -trimpath -buildvcs=false -tags grpcnotrace -ldflags '$(LDFLAGS)'

# A clone in another folder has the same packages: what one was built from, and what linters found in it, is in the cache for it.
export GOFLAGS := $(if $(filter -trimpath,$(GOFLAGS)),$(GOFLAGS),$(strip -trimpath $(GOFLAGS)))

# Laws draw the same worlds in each run, and no failure of an earlier one is tried first: what draws anew is make soak.
export RAPID_SEED ?= 1
export RAPID_NOFAILFILE ?= 1
export PLINTH_TEST_SEED ?= 1
SEEDS := RAPID_SEED,RAPID_NOFAILFILE,RAPID_CHECKS,PLINTH_TEST_SEED,PLINTH_TEST_KEEP_SEEDS

# What makes namespaces needs root; everything else runs as whoever calls make,
# compiling included: go test builds as you and runs the test through sudo.
ifneq ($(shell id -u),0)
AS_ROOT := sudo --preserve-env=HOME,XDG_CACHE_HOME,KUBEBUILDER_ASSETS,PLINTH_TEST_KUBERNETES,CI,GOPROXY,GOFLAGS,$(SEEDS) env PATH="$$PATH"
EXEC    := -exec 'sudo --preserve-env=HOME,XDG_CACHE_HOME,KUBEBUILDER_ASSETS,PLINTH_TEST_KUBERNETES,PLINTH_TEST_PROGRAMS,PLINTH_TEST_GOGC,CI,GOPROXY,GOFLAGS,$(SEEDS) env PATH=$(PATH)'
endif
LAB     := bin/plinth-lab

.SECONDEXPANSION:

step = @printf '\n\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Compilers and linters collect their garbage seldom: processors are scarcer than memory.
.PHONY: build
build: export GOGC := 400
build: ## build the three programs into bin/
	@mkdir -p bin
	@$(BUILD) -o bin/plinth-cloud-controller-manager ./cmd/cloud-controller-manager
	@$(BUILD) -o bin/plinth-agent ./cmd/node-agent
	@$(BUILD) -o bin/plinth ./cmd/plinth

# When an image says that it was made: the time of the commit, so that two builds are equal.
EPOCH      = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || echo 0))
REGISTRY  ?= docker.io/library
# GitHub keeps the case of names, names of images have small letters alone.
override REGISTRY := $(shell echo '$(REGISTRY)' | tr A-Z a-z)
DOWNLOAD  ?= https://plinth.dev/plinth/releases
SOURCE    ?= https://plinth.dev/plinth/blob
PLATFORMS := amd64 arm64

.PHONY: images
images: ## build both images as OCI archives into bin/images/, without a container engine
	@for arch in $(PLATFORMS); do \
		mkdir -p bin/linux-$$arch && \
		GOOS=linux GOARCH=$$arch $(BUILD) -o bin/linux-$$arch/plinth-cloud-controller-manager ./cmd/cloud-controller-manager && \
		GOOS=linux GOARCH=$$arch $(BUILD) -o bin/linux-$$arch/plinth-agent ./cmd/node-agent || exit 1; \
	done
	@go run -C release ./images -version '$(VERSION)' -revision '$(REVISION)' -epoch $(EPOCH) -registry $(REGISTRY) -programs ../bin -out ../bin/images

DIST = go run -C release ./dist -version '$(VERSION)' -epoch $(EPOCH) -registry $(REGISTRY) -download $(DOWNLOAD) -source $(SOURCE) -root .. -out ../dist

# Whether the changelog knows the version is asked before all is built, not after it.
.PHONY: release-notes
release-notes:
	@$(DIST) -only notes

# A version that Helm and krew take, where no tag gives one.
release sign publish-images publish-files: VERSION := $(if $(filter v%,$(VERSION)),$(VERSION),v0.0.0-g$(VERSION))
.PHONY: release
release: release-notes images ## all that a release consists of, in dist/: the same bytes each time
	@for p in darwin/amd64 darwin/arm64 linux/amd64 linux/arm64 windows/amd64 windows/arm64; do \
		folder=bin/$${p%/*}-$${p#*/} && mkdir -p $$folder && \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(BUILD) -o $$folder/ ./cmd/plinth || exit 1; \
	done
	@$(DIST) -programs ../bin -images ../bin/images
	@cat dist/SHA256SUMS
	@[ '$(REGISTRY)' != docker.io/library ] || echo 'Images, chart and manifests name docker.io/library, where you cannot publish: REGISTRY=registry.example.com/plinth names yours.' >&2

# What goes out is whole, and of the version that is meant, not of an earlier commit.
.PHONY: dist-check
dist-check:
	@test -f 'dist/plinth_$(VERSION)_linux_amd64.tar.gz' || { echo 'dist/ has no release $(VERSION): make release first' >&2; exit 1; }
	@cd dist && sha256sum --check --quiet --strict SHA256SUMS

.PHONY: publish-images
publish-images: dist-check ## push the images of dist/ to the REGISTRY that they were made for
	@go run -C release ./publish $(addprefix ../,$(wildcard dist/*_image.oci.tar))

# Asks Sigstore for a certificate of who or what runs it: never done without a network.
COSIGN ?= go run github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3
.PHONY: sign
sign: dist-check ## sign the checksums of dist/ without a key of our own (Sigstore)
	@$(COSIGN) sign-blob --yes --bundle dist/SHA256SUMS.sigstore.json dist/SHA256SUMS

.PHONY: publish-files
publish-files: dist-check ## make a release on GitHub of dist/, once it is signed
	@test -s dist/SHA256SUMS.sigstore.json || { echo 'dist/ is not signed: make sign first' >&2; exit 1; }
	@gh release create '$(VERSION)' --verify-tag $(if $(findstring -,$(VERSION)),--prerelease) --title 'Plinth $(VERSION)' --notes-file dist/NOTES.md dist/*

.PHONY: demo
demo: lab-tools ## set up a datacenter on this machine, run the main job on it, and leave nothing behind
	@$(AS_ROOT) $(LAB) demo

.PHONY: demo-home
demo-home: lab-tools ## the same for a home: no router that speaks BGP, and a phone that opens a page
	@$(AS_ROOT) $(LAB) demo-home

.PHONY: lab-up
lab-up: lab-tools ## the same datacenter, left running: .lab/kubeconfig, .lab/bin/kubectl
	@$(AS_ROOT) $(LAB) up

.PHONY: lab-down
lab-down: ## remove every trace of it
	@mkdir -p bin && $(BUILD_LAB)
	@$(AS_ROOT) $(LAB) down

comma := ,

# The runner builds the tests of all its parts first, goes on after one that failed, and ends with what failed and why.
RUN = go run -C test ./run $(EXEC) -root ..
# What parts need: lint and unit nothing but Go.
NEEDS = $(if $(PARTS),$(if $(filter-out lint unit,$(subst $(comma), ,$(PARTS))),controlplane),controlplane)

.PHONY: test
test: $$(NEEDS) ## the gate: lint, and every test that holds a fact (PARTS=lint,unit,kernel,routers,cluster,lab: these alone)
	@$(RUN) $(or $(PARTS),gate)

.PHONY: test-all
test-all: $$(NEEDS) ## all that make test leaves out: what depends on the clock, takes long or draws anew (PARTS=bfd,traffic,waits,labs,kine,chaos,samples: these alone)
	@$(RUN) $(or $(PARTS),rest)

# What fails becomes a case: seeds of stories in testdata/seeds, which is committed with the mend; worlds of laws in
# testdata/rapid, which each run of the law tries first, and which git takes with add -f alone.
.PHONY: soak
soak: controlplane ## draw what tests draw anew, again and again: stories of chaos, and a thousand worlds for each law (ROUNDS=10); writes what fails as a case into the tree
	@failed=0; for round in $$(seq $(or $(ROUNDS),10)); do \
		PLINTH_TEST_KEEP_SEEDS=1 RAPID_NOFAILFILE=0 $(RUN) chaos || failed=$$((failed + 1)); \
	done; \
	git status --short --ignored -- '*/testdata/seeds' '*/testdata/rapid'; \
	echo "$$failed of $(or $(ROUNDS),10) rounds failed"; [ $$failed = 0 ]

.PHONY: fresh
fresh: ## the demos and the tests in a minimal Debian with Go and nothing else (COLD=1: without caches)
	@$(AS_ROOT) test/fresh.sh $(if $(COLD),--cold) $(or $(TARGETS),demo demo-home test)

.PHONY: nightly
nightly: ## what takes too long for every change (SUITE=test-real: that alone)
	@$(MAKE) --no-print-directory $(or $(SUITE),test-all soak test-real test-failures test-versions stopwatch)

# What machines with a kubelet and containerd need.
.PHONY: real-machines
real-machines: lab-tools
	@$(AS_ROOT) test/install-deps.sh gcc libc6-dev libseccomp-dev pkg-config iptables
	@$(MAKE) --no-print-directory images REGISTRY=registry.example.com/plinth VERSION=v0.1.0
	@$(LAB) build --real

.PHONY: test-real
test-real: real-machines ## the shipped images and chart on real kubelets and containerd, with kube-proxy in nftables and iptables mode
	$(call step,real machines: the chart, nftables, FRR)
	@go test -C test $(EXEC) -count=1 -timeout 45m ./real
	$(call step,real machines: the overlay, iptables, BIRD)
	@go test -C test $(EXEC) -count=1 -timeout 45m ./real -args -proxy-mode=iptables -install=overlay -router=bird

.PHONY: stopwatch
stopwatch: lab-tools ## how long the quick start takes on fresh real machines, with the files of a release and nothing else
	@$(AS_ROOT) test/install-deps.sh gcc libc6-dev libseccomp-dev pkg-config iptables
	@$(MAKE) --no-print-directory release REGISTRY=registry.example.com/plinth
	@$(LAB) build --real
	$(call step,the quick start on fresh machines)
	@go test -C test $(EXEC) -v -count=1 -timeout 30m ./stopwatch

.PHONY: test-failures
test-failures: controlplane ## what plinth simulate says, held against each machine, router and rack that fails, and ten pairs, with the weights of next hops: about half an hour
	$(call step,failures of a lab)
	@go test -C test $(EXEC) -v -count=1 -timeout 60m -run TestWhatSimulateSays ./labs -args -every-failure

.PHONY: test-versions
test-versions: lab-tools ## all stories on Kubernetes 1.33, 1.34 and the newest, more than an hour each (VERSIONS="1.35 1.36": on others; ONLY=e2e,real); writes the table in README.md
	@$(AS_ROOT) test/install-deps.sh gcc libc6-dev libseccomp-dev pkg-config iptables
	@$(MAKE) --no-print-directory images REGISTRY=registry.example.com/plinth VERSION=v0.1.0
	$(call step,versions of Kubernetes)
	@go run -C test ./versions $(EXEC) -only '$(ONLY)' $(VERSIONS)

.PHONY: e2e-upstream
e2e-upstream: lab-tools ## Kubernetes' own tests of LoadBalancer Services on real machines; writes docs/reference/conformance.md
	@$(AS_ROOT) test/install-deps.sh gcc libc6-dev libseccomp-dev pkg-config busybox-static netcat-openbsd wget curl
	@$(MAKE) --no-print-directory images REGISTRY=registry.example.com/plinth VERSION=v0.1.0
	@$(LAB) build --upstream
	$(call step,Kubernetes' own tests)
	@go test -C test $(EXEC) -count=1 -timeout 2h -v ./upstream -args -record

.PHONY: bench
bench: controlplane ## measure what the docs give a figure for, but for upgrades, which need real machines
	$(call step,planners)
	@go test -count=1 -run '^$$' -bench . ./inventory/document ./lb/ipam ./lb/advertise ./routing ./preview ./provider/... ./cmd/plinth
	$(call step,kernel)
	@go test $(EXEC) -tags privileged,timing -count=1 -run '^$$' -bench . ./routing/kernel ./provider/agent ./provider/agent/proxy ./lb/onlink
	$(call step,sessions)
	@go test $(EXEC) -tags privileged,timing -count=1 -run '^$$' -bench . -benchtime 1x -timeout 1h ./lb/bgp
	$(call step,machines of a subnet that watch each other)
	@go test $(EXEC) -tags privileged,timing -count=1 -run '^$$' -bench . -benchtime 120x -timeout 1h ./lb/mesh
	$(call step,Nodes at a real API server)
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -timeout 90m ./bench
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 30m ./bench/routes
	$(call step,what waiting for kube-proxy's rules costs)
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 90m ./bench/gate
	$(call step,rollouts: beside MetalLB, and in both families)
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 30m ./bench/rollouts
	$(call step,VIPs on the link beside MetalLB)
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 1h ./bench/onlink
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 1h ./bench/onlink -args -ipv6
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 1h ./bench/onlink -args -machines=5 -vips=50 -cuts=5 -stories=cuts,ends
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 1h ./bench/onlink -args -only=plinth -stories=idle,hostile,split -machines=5 -idle=2m -split=2m
	$(call step,Services from their creation to a router beside MetalLB)
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 3h ./bench/vips

# Some parts run on machines with a kubelet and containerd.
ON_REAL = $(if $(PARTS),$(if $(filter upgrades rollouts-dual,$(subst $(comma), ,$(PARTS))),real-machines),real-machines)

.PHONY: evidence
evidence: controlplane $$(ON_REAL) ## measure the figures of the docs on this commit and write their tables (PARTS="agent starts": these alone); says what is older than its code
	@go run -C test ./evidence $(EXEC) $(subst $(comma), ,$(PARTS))

.PHONY: evidence-age
evidence-age: ## which figures of the docs are older than the code that they are about (PARTS="agent starts": of these alone)
	@go run -C test ./evidence -age $(subst $(comma), ,$(PARTS))

# Built from the modules that go.mod and lint/go.mod pin. The same bytes in each clone: go vet keeps what it found, by tool.
LINTERS = $(addprefix bin/,plinth-vet revive unparam misspell actionlint staticcheck)
$(LINTERS) &: go.mod lint/go.mod lint/vet/main.go
	@mkdir -p bin
	@go build -C lint -trimpath -buildvcs=false -o ../bin/plinth-vet ./vet
	@go build -C lint -trimpath -buildvcs=false -o ../bin/ github.com/mgechev/revive mvdan.cc/unparam github.com/golangci/misspell/cmd/misspell github.com/rhysd/actionlint/cmd/actionlint
	@go build -trimpath -buildvcs=false -o bin/ honnef.co/go/tools/cmd/staticcheck

# Words that are spelt so on purpose: the name of a system, and mistakes in inventories of tests.
SPELT = routeros,adress,maintainance

# All that tests are tagged with.
TAGS = privileged,timing,slow,chaos,samples,fleet

.PHONY: lint
lint: export GOGC := 400
lint: $(LINTERS) ## gofmt, go vet, staticcheck, and what lint/ has: errorlint, exhaustive, revive, unparam, misspell, actionlint
	$(call step,lint)
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "gofmt would change: $$out"; exit 1; }
	@set -o pipefail; out=$$(git ls-files -z | xargs -0 stat -c '%s %n' | awk '$$1 > 1048576') && [ -z "$$out" ] || { echo "built, not written: $$out"; exit 1; }
	@set -o pipefail; git ls-files -z '*.go' '*.md' '*.yaml' Makefile | xargs -0 bin/misspell -i $(SPELT) -error
	@bin/actionlint -shellcheck= -pyflakes= .github/workflows/* # the same, whatever else is installed
	@bin/revive -config lint/revive.toml -formatter friendly ./...
	@for module in . test release lint; do \
		go vet -C $$module -tags $(TAGS) ./... && \
		go vet -C $$module -vettool=$(CURDIR)/bin/plinth-vet -tags $(TAGS) ./... && \
		(cd $$module && $(CURDIR)/bin/staticcheck -tags $(TAGS) ./...) && \
		(cd $$module && GOFLAGS="$$GOFLAGS -tags=$(TAGS)" $(CURDIR)/bin/unparam ./...) || exit 1; \
	done # unparam has no flag for tags
	@for os in darwin windows; do GOOS=$$os go build -o /dev/null ./cmd/plinth || exit 1; done # as releases have it

.PHONY: generate
generate: ## write again what is generated: the reference pages, the router's side of the examples
	@go generate ./...
	@go generate -C release ./...

.PHONY: deps
deps: ## install the Debian packages that the lab and the tests use, where missing
	@$(AS_ROOT) test/install-deps.sh

BUILD_LAB = CGO_ENABLED=0 go build -C test -trimpath -ldflags '-s -w' -o ../bin/ ./lab/cmd/...

.PHONY: lab-tools
lab-tools: deps
	$(call step,building Plinth)
	@$(MAKE) --no-print-directory build
	@$(BUILD_LAB)

.PHONY: controlplane
controlplane: lab-tools
	@$(LAB) build
