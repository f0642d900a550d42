# Plinth: build, try and test. `make help` lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
REVISION := $(shell git rev-parse HEAD 2>/dev/null)
# What the Kubernetes libraries say of themselves: in user agents our version, in the metric
# kubernetes_build_info their own. By the latter feature gates are decided too, so it cannot
# be ours.
K8S     := v1$(patsubst v0%,%,$(shell awk '$$1 == "k8s.io/component-base" {print $$2}' go.mod))
LDFLAGS := -s -w -X main.version=$(VERSION) -X k8s.io/client-go/pkg/version.gitVersion=$(VERSION) -X k8s.io/client-go/pkg/version.gitCommit=$(REVISION) \
	-X k8s.io/component-base/version.gitVersion=$(K8S) -X k8s.io/component-base/version.gitCommit=
# grpcnotrace leaves out a page of gRPC's that nobody looks at. It draws in templates,
# with which the linker has to keep every method there is: a third of a program.
BUILD   := CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags grpcnotrace -ldflags '$(LDFLAGS)'

# What makes namespaces needs root; everything else runs as whoever calls make,
# compiling included: go test builds as you and runs the test through sudo.
ifneq ($(shell id -u),0)
AS_ROOT := sudo --preserve-env=HOME,XDG_CACHE_HOME,KUBEBUILDER_ASSETS,PLINTH_TEST_KUBERNETES,CI,GOPROXY,GOFLAGS env PATH="$$PATH"
EXEC    := -exec 'sudo --preserve-env=HOME,XDG_CACHE_HOME,KUBEBUILDER_ASSETS,PLINTH_TEST_KUBERNETES,CI env PATH=$(PATH)'
endif
LAB     := bin/plinth-lab

step = @printf '\n\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the three programs into bin/
	@mkdir -p bin
	@$(BUILD) -o bin/plinth-cloud-controller-manager ./cmd/cloud-controller-manager
	@$(BUILD) -o bin/plinth-agent ./cmd/node-agent
	@$(BUILD) -o bin/plinth ./cmd/plinth

# When an image says that it was made: the time of the commit, so that two builds are equal.
EPOCH      = $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
REGISTRY  ?= docker.io/library
PLATFORMS := amd64 arm64

.PHONY: images
images: ## build both images as OCI archives into bin/images/, without a container engine
	@for arch in $(PLATFORMS); do \
		mkdir -p bin/linux-$$arch && \
		GOOS=linux GOARCH=$$arch $(BUILD) -o bin/linux-$$arch/plinth-cloud-controller-manager ./cmd/cloud-controller-manager && \
		GOOS=linux GOARCH=$$arch $(BUILD) -o bin/linux-$$arch/plinth-agent ./cmd/node-agent || exit 1; \
	done
	@go run -C release ./images -version '$(VERSION)' -revision '$(REVISION)' -epoch $(EPOCH) -registry $(REGISTRY) -programs ../bin -out ../bin/images

.PHONY: demo
demo: lab-tools ## set up a datacenter on this machine, run the main job on it, and leave nothing behind
	@$(AS_ROOT) $(LAB) demo

.PHONY: lab-up
lab-up: lab-tools ## the same datacenter, left running: .lab/kubeconfig, .lab/bin/kubectl
	@$(AS_ROOT) $(LAB) up

.PHONY: lab-down
lab-down: ## remove every trace of it
	@mkdir -p bin && $(BUILD_LAB)
	@$(AS_ROOT) $(LAB) down

.PHONY: test
test: deps lint test-unit test-privileged test-e2e ## run every test but those on real kubelets: unit, namespaces, routers, API server, lab
	@printf '\nall tests passed\n'

.PHONY: fresh
fresh: ## demo and test in a minimal Debian with Go and nothing else (COLD=1: without caches)
	@$(AS_ROOT) test/fresh.sh $(if $(COLD),--cold) $(or $(TARGETS),demo test)

.PHONY: test-unit
test-unit: ## the tests that need neither root nor a network
	$(call step,unit tests)
	@go test ./...
	@go test -C release ./...

.PHONY: test-privileged
test-privileged: deps ## the tests that need the kernel, FRR, BIRD and OpenBGPD in network namespaces
	$(call step,kernel and router tests)
	@go test $(EXEC) -tags privileged -count=1 -timeout 45m ./lb/bgp ./lb/kubeproxy ./routing/kernel ./provider/agent ./inventory/routerconfig ./cmd/node-agent

# What has an API server of its own and mostly waits runs side by side; a story
# that counts lost packets has the machine for itself.
BESIDE = $$(go list -C test ./... | grep -vE '/(e2e|real|upstream)$$')

.PHONY: test-e2e
test-e2e: controlplane ## the stories on a whole lab
	$(call step,end to end: a real control plane with real routers)
	@go test -C test $(EXEC) -count=1 -p 2 -timeout 45m $(BESIDE)
	@go test -C test $(EXEC) -count=1 -p 1 -timeout 45m ./e2e/...

.PHONY: test-real
test-real: lab-tools ## the shipped images and chart on real kubelets and containerd, with kube-proxy in nftables and iptables mode
	@$(AS_ROOT) test/install-deps.sh gcc libc6-dev libseccomp-dev pkg-config iptables
	@$(MAKE) --no-print-directory images REGISTRY=registry.example.com/plinth VERSION=v0.1.0
	@$(LAB) build --real
	$(call step,real machines: the chart, nftables, FRR)
	@go test -C test $(EXEC) -count=1 -timeout 45m ./real
	$(call step,real machines: the overlay, iptables, BIRD)
	@go test -C test $(EXEC) -count=1 -timeout 45m ./real -args -proxy-mode=iptables -install=overlay -router=bird

.PHONY: test-failures
test-failures: controlplane ## what plinth simulate says, held against each machine, router and rack that fails, and ten pairs: about twenty minutes
	$(call step,failures of a lab)
	@go test -C test $(EXEC) -v -count=1 -timeout 60m -run TestWhatSimulateSaysIsWhatHappens ./e2e -args -every-failure

.PHONY: test-versions
test-versions: lab-tools ## all stories on Kubernetes 1.33, 1.34 and the newest, about half an hour each (VERSIONS="1.35 1.36": on others; ONLY=e2e,real); writes the table in README.md
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
bench: controlplane ## measure what the docs give a figure for
	$(call step,planners)
	@go test -count=1 -run '^$$' -bench . ./inventory ./lb/ipam ./lb/advertise ./routing ./provider/...
	$(call step,kernel)
	@go test $(EXEC) -tags privileged -count=1 -run '^$$' -bench . ./routing/kernel ./provider/agent
	$(call step,sessions)
	@go test $(EXEC) -tags privileged -count=1 -run '^$$' -bench . -benchtime 1x -timeout 1h ./lb/bgp
	$(call step,Nodes at a real API server)
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -timeout 90m ./bench
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 30m ./bench/routes
	$(call step,what waiting for kube-proxy's rules costs)
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 90m ./bench/gate
	$(call step,rollouts beside MetalLB)
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 30m ./bench/rollouts
	$(call step,Services from their creation to a router beside MetalLB)
	@go test -C test $(EXEC) -count=1 -run '^$$' -bench . -benchtime 1x -timeout 3h ./bench/vips

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	$(call step,lint)
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "gofmt would change: $$out"; exit 1; }
	@go vet -tags privileged ./...
	@go vet -C test ./...
	@go vet -C release ./...
	@go build -o bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	@bin/staticcheck -tags privileged ./...
	@cd test && ../bin/staticcheck ./...
	@cd release && ../bin/staticcheck ./...

.PHONY: generate
generate: ## write again what is generated: the reference pages, the router's side of the examples
	@go generate ./...

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
