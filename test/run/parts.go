package main

import "strings"

// part is a part of the tests, which runs after the one before it has ended.
type part struct {
	name    string
	command []string // in place of suites
	suites  []suite
	beside  int  // how many packages run side by side; zero: one
	usual   int  // minutes on two quiet processors, once all is built
	plain   bool // it needs Go alone: neither root nor a lab
}

// suite is packages of one module.
type suite struct {
	module   string   // folder of the module
	packages []string // patterns of go list
	without  []string // import paths that begin so are left out
	tags     string
	known    string   // tags: tests that there are with these alone have run elsewhere
	flags    []string // of the test binaries
	env      []string
}

// gate is what each change must pass: facts, on which no clock and no chance has a say.
var gate = []part{
	{name: "lint", command: []string{"make", "--no-print-directory", "lint"}, usual: 2, plain: true},
	{name: "unit", beside: 2, usual: 3, plain: true, suites: []suite{
		{module: ".", packages: []string{"./..."}},
		{module: "release", packages: []string{"./..."}},
	}},
	{name: "kernel", beside: 2, usual: 3, suites: []suite{
		{module: ".", packages: []string{"./routing/kernel", "./provider/agent", "./lb/onlink", "./lb/kubeproxy", "./cmd/node-agent"}, tags: "privileged", known: "none"},
	}},
	{name: "routers", beside: 2, usual: 4, suites: []suite{
		{module: ".", packages: []string{"./lb/bgp", "./inventory/routerconfig"}, tags: "privileged", known: "none"},
	}},
	{name: "cluster", beside: 2, usual: 6, suites: []suite{
		{module: "test", packages: []string{"./..."}, without: []string{"e2e", "traffic", "labs", "real", "stopwatch", "upstream"}},
	}},
	{name: "lab", usual: 6, suites: []suite{{module: "test", packages: []string{"./e2e/..."}}}},
}

// rest is what depends on the clock, takes long, or draws what happens.
var rest = []part{
	{name: "bfd", usual: 12, suites: []suite{
		{module: ".", packages: []string{"./lb/bgp", "./lb/kubeproxy", "./lb/mesh", "./provider/agent"}, tags: "privileged,timing", known: "privileged", flags: []string{"-test.parallel=2"}},
	}},
	{name: "traffic", usual: 15, suites: []suite{{module: "test", packages: []string{"./traffic/..."}}}},
	{name: "waits", beside: 2, usual: 8, suites: []suite{
		{module: "test", packages: []string{"./services", "./nodes"}, tags: "slow", known: "none"},
	}},
	{name: "labs", usual: 6, suites: []suite{{module: "test", packages: []string{"./labs"}}}},
	{name: "chaos", beside: 2, usual: 8, suites: []suite{
		{module: "test", packages: []string{"./services", "./nodes"}, tags: "chaos", known: "none", env: []string{"PLINTH_TEST_SEED="}},
		{module: ".", packages: []string{"./lb/...", "./inventory", "./preview", "./routing", "./sorted", "./bfd", "./provider/..."}, env: []string{"RAPID_SEED=0", "RAPID_CHECKS=1000"}},
	}},
}

// named are the parts of these names, separated by commas or blanks; unknown are names that none has.
func named(names string) (parts []part, unknown []string) {
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' }) {
		switch name {
		case "gate":
			parts = append(parts, gate...)
			continue
		case "rest":
			parts = append(parts, rest...)
			continue
		}
		found := false
		for _, p := range append(append([]part{}, gate...), rest...) {
			if p.name == name {
				parts, found = append(parts, p), true
			}
		}
		if !found {
			unknown = append(unknown, name)
		}
	}
	return parts, unknown
}

func partNames() string {
	var names []string
	for _, p := range append(append([]part{}, gate...), rest...) {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ") + "; gate and rest for those of either"
}
