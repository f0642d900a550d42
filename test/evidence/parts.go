package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// part is what one run measures.
type part struct {
	name string
	page string     // that shows its table, from the root
	runs [][]string // arguments of go test, after those that all have
	code []string   // paths from the root: a change there makes the record old
}

// figures is the page that most parts are on.
const figures = "docs/explanation/figures.md"

// agentCode is what agents are made of.
var agentCode = []string{"bfd", "go.mod", "inventory", "lb", "memory", "provider/agent", "routing", "sorted", "uptime", "wake"}

// labCode is what measures agents on a lab, besides the benchmark.
var labCode = slices.Concat(agentCode, []string{"cmd/node-agent", "test/bench/results", "test/lab"})

// controllerCode is what the controller manager is made of.
var controllerCode = []string{"cmd/cloud-controller-manager", "durable", "go.mod", "inventory", "lb", "memory", "preview", "provider", "routing", "sorted", "uptime", "wake"}

// vipsCode is what measures Services from their creation to a router, beside MetalLB.
var vipsCode = []string{"test/apiserver", "test/bench/fib", "test/bench/metallb", "test/bench/results", "test/bench/vips", "test/controlplane"}

// gateCode is what measures the wait for kube-proxy's rules.
var gateCode = slices.Concat(labCode, []string{"test/bench/fib", "test/bench/gate"})

// gate is a run of a benchmark of test/bench/gate with its flags.
func gate(benchmark string, flags ...string) []string {
	return slices.Concat([]string{"-C", "test", "-bench", "^Benchmark" + benchmark + "$", "-benchtime", "1x", "-timeout", "90m", "./bench/gate", "-args"}, flags)
}

// older is the commit from which upgrades are measured; there is no tag yet.
const older = "2051dffb"

// parts are in the order in which they are measured.
var parts = []part{
	{
		name: "agent",
		page: figures,
		runs: [][]string{
			{"-bench", "^BenchmarkPlan$", "-count", "5", "./lb/advertise"},
			{"-bench", "^BenchmarkPass$", "-count", "5", "./provider/agent"},
			{"-tags", "privileged,timing", "-bench", "^BenchmarkOneOfMany$", "-benchtime", "200x", "-timeout", "20m", "./lb/bgp"},
		},
		code: agentCode,
	},
	{
		name: "new-vips",
		page: figures,
		runs: [][]string{gate("NewVIP")},
		code: gateCode,
	},
	{
		name: "late-rules",
		page: figures,
		runs: [][]string{
			gate("NewVIP", "-rounds=3", "-samples=5", "-min-sync=5s", "-beside=1000"),
			gate("NewVIP", "-rounds=3", "-local"),
			gate("NewVIP", "-rounds=3", "-local", "-proxy-modes=iptables", "-kubernetes=1.35"),
			gate("NewVIP", "-rounds=3", "-samples=5", "-local", "-proxy-modes=iptables", "-kubernetes=1.35", "-min-sync=5s"),
			gate("NewVIP", "-rounds=1", "-samples=2", "-proxy-modes=nftables", "-min-sync=90s"),
		},
		code: gateCode,
	},
	{
		name: "starts",
		page: figures,
		runs: [][]string{gate("Start")},
		code: gateCode,
	},
	{
		name: "mesh",
		page: figures,
		runs: [][]string{{"-tags", "privileged", "-bench", "^BenchmarkIdle$", "-benchtime", "60x", "-timeout", "30m", "./lb/mesh"}},
		code: []string{"bfd", "go.mod", "inventory", "lb/advertise", "lb/mesh", "sorted", "uptime", "wake"},
	},
	{
		name: "rules",
		page: figures,
		runs: [][]string{{"-tags", "privileged,timing", "-bench", "^BenchmarkALookForRules$", "-count", "5", "-timeout", "20m", "./provider/agent/proxy"}},
		code: []string{"go.mod", "inventory", "lb/advertise", "lb/kubeproxy", "provider/agent/proxy", "wake"},
	},
	{
		name: "pod-routes",
		page: "docs/explanation/pod-routes.md",
		runs: [][]string{
			{"-bench", "^Benchmark(Plan5000|OneMoreAmong5000)$", "-count", "5", "./routing"},
			{"-tags", "privileged,timing", "-bench", "^Benchmark(Add10000|Replace10000|NothingToChange10000|Repair|ForeignReplacements|Throughput)$", "-benchtime", "11x", "-timeout", "30m", "./routing/kernel"},
			{"-tags", "privileged,timing", "-bench", "^BenchmarkNodeAddedAmong5000$", "-benchtime", "200x", "-timeout", "20m", "./provider/agent"},
			{"-C", "test", "-bench", "^BenchmarkAgent$", "-benchtime", "1x", "-timeout", "60m", "./bench/routes"},
		},
		code: slices.Concat(agentCode, []string{"cmd/node-agent", "test/apiserver", "test/bench/routes"}),
	},
	{
		name: "sizes",
		page: figures,
		runs: [][]string{
			{"-bench", "^Benchmark(Diff|Unreachable|Simulate|Summary|Parse)$", "-count", "5", "-benchtime", "3x", "-timeout", "30m", "./cmd/plinth", "./preview", "./provider/survey", "./inventory/document"},
			{"-bench", "^BenchmarkAllocate(DualStack|Refused|Shares)?$", "-count", "5", "-benchtime", "300ms", "-timeout", "30m", "./lb/ipam"},
		},
		code: []string{"cmd/plinth", "diagnose", "go.mod", "inventory", "lb", "preview", "provider/claim", "provider/cluster", "provider/endpoints", "provider/nodeindex", "provider/survey", "routing", "sorted"},
	},
	{
		name: "memory",
		page: figures,
		runs: [][]string{{"-C", "test", "-bench", "^BenchmarkMemory$", "-benchtime", "1x", "-timeout", "90m", "./bench/vips", "-args", "-rounds=5", "-only=plinth"}},
		code: slices.Concat(controllerCode, vipsCode),
	},
	{
		name: "sessions",
		page: figures,
		runs: [][]string{{"-tags", "privileged,timing", "-bench", "^Benchmark(BackAfterReset|DeadMachine|BFDUnderFullLoad)$", "-benchtime", "1x", "-timeout", "1h", "./lb/bgp"}},
		code: []string{"bfd", "go.mod", "inventory", "lb/advertise", "lb/bgp", "sorted", "uptime", "wake"},
	},
	{
		name: "rollouts",
		page: figures,
		runs: [][]string{
			{"-C", "test", "-bench", "^BenchmarkRollouts$", "-benchtime", "1x", "-timeout", "30m", "./bench/rollouts"},
			{"-C", "test", "-bench", "^BenchmarkRollouts$", "-benchtime", "1x", "-timeout", "30m", "./bench/rollouts", "-args", "-proxy-mode=iptables"},
		},
		code: slices.Concat(labCode, []string{"test/bench/metallb", "test/bench/rollouts"}),
	},
	{
		name: "rollouts-dual",
		page: figures,
		runs: [][]string{
			{"-C", "test", "-bench", "^BenchmarkRolloutsDualStack$", "-benchtime", "1x", "-timeout", "1h", "./bench/rollouts", "-args", "-rounds=5"},
			{"-C", "test", "-bench", "^BenchmarkRolloutsDualStack$", "-benchtime", "1x", "-timeout", "1h", "./bench/rollouts", "-args", "-rounds=5", "-proxy-mode=iptables"},
			{"-C", "test", "-bench", "^BenchmarkRolloutsDualStack$", "-benchtime", "1x", "-timeout", "1h", "./bench/rollouts", "-args", "-rounds=5", "-real"},
			{"-C", "test", "-bench", "^BenchmarkRolloutsDualStack$", "-benchtime", "1x", "-timeout", "1h", "./bench/rollouts", "-args", "-rounds=5", "-real", "-proxy-mode=iptables", "-router=bird"},
		},
		code: slices.Concat(labCode, controllerCode, []string{"deploy/helm", "docs/guides/install.md", "test/bench/rollouts", "test/real"}),
	},
	{
		name: "upgrades",
		page: figures,
		runs: [][]string{
			{"-C", "test", "-bench", "^BenchmarkUpgrade$", "-benchtime", "1x", "-timeout", "90m", "./bench/upgrades", "-args", "-from=" + older},
			{"-C", "test", "-bench", "^BenchmarkUpgrade$", "-benchtime", "1x", "-timeout", "90m", "./bench/upgrades", "-args", "-from=" + older, "-proxy-mode=iptables", "-router=bird"},
		},
		code: slices.Concat(labCode, controllerCode, []string{"deploy/helm", "docs/guides/install.md", "test/bench/upgrades", "test/real"}),
	},
	{
		name: "onlink",
		page: figures,
		runs: [][]string{
			{"-C", "test", "-bench", "^BenchmarkOnLink$", "-benchtime", "1x", "-timeout", "1h", "./bench/onlink", "-args", "-cuts=20"},
			{"-C", "test", "-bench", "^BenchmarkOnLink$", "-benchtime", "1x", "-timeout", "1h", "./bench/onlink", "-args", "-ipv6", "-only=plinth", "-cuts=20"},
			{"-C", "test", "-bench", "^BenchmarkOnLink$", "-benchtime", "1x", "-timeout", "1h", "./bench/onlink", "-args", "-machines=5", "-vips=50", "-cuts=5", "-stories=cuts,ends"},
			{"-C", "test", "-bench", "^BenchmarkOnLink$", "-benchtime", "1x", "-timeout", "1h", "./bench/onlink", "-args", "-only=plinth", "-stories=idle", "-machines=5", "-idle=10m"},
		},
		code: slices.Concat(labCode, []string{"test/bench/metallb", "test/bench/onlink"}),
	},
	{
		name: "latency",
		page: figures,
		runs: [][]string{{"-C", "test", "-bench", "^BenchmarkAmong$", "-benchtime", "1x", "-timeout", "3h", "./bench/vips", "-args", "-rounds=3", "-most=10000"}},
		code: slices.Concat(agentCode, controllerCode, vipsCode, []string{"cmd/node-agent"}),
	},
	{
		name: "rate",
		page: figures,
		runs: [][]string{{"-C", "test", "-bench", "^BenchmarkRate$", "-benchtime", "1x", "-timeout", "90m", "./bench/vips", "-args", "-rounds=3", "-most=3000"}},
		code: slices.Concat(controllerCode, vipsCode),
	},
	{
		name: "fleet",
		page: figures,
		runs: [][]string{{"-C", "test", "-bench", "^BenchmarkFleet$", "-benchtime", "1x", "-timeout", "3h", "./bench/fleet", "-args", "-watchers=50", "-rounds=3"}},
		code: slices.Concat(agentCode, controllerCode, []string{"cmd/node-agent", "test/apiserver", "test/bench/fleet", "test/bench/results", "test/controlplane", "test/procfs"}),
	},
}

// chosen returns the parts of these names, or all.
func chosen(names []string) ([]part, error) {
	if len(names) == 0 {
		return parts, nil
	}
	var asked []part
	for _, name := range names {
		found := false
		for _, p := range parts {
			if p.name == name {
				asked, found = append(asked, p), true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s is no part, but %s", name, partNames())
		}
	}
	return asked, nil
}

func partNames() string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// record is the file of what the part measured, from the root.
func (p part) record() string { return filepath.Join("docs", "evidence", p.name+".txt") }
