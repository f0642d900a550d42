package main

import "strings"

// part is a part of the tests.
type part struct {
	name    string
	command []string // in place of suites
	suites  []suite
	usual   int  // minutes that its packages take on two quiet processors, all together, beside those of the parts that they run with
	plain   bool // it needs Go alone: neither root nor a lab
	clock   bool // its tests depend on the clock: one that fails while programs lacked a processor is run once more
	places  int  // its packages follow each other, and each takes so many places; zero: they run side by side, in one each
	alone   int  // nothing of another part runs meanwhile, and at most so many packages of its own; zero: parts that follow each other run side by side
}

// suite is packages of one module.
type suite struct {
	module   string   // folder of the module
	packages []string // patterns of go list
	without  []string // import paths that begin so are left out
	tags     string
	known    string   // tags: tests that there are with these alone have run elsewhere
	flags    []string // of the test binaries
	pieces   bool     // a package that takes long runs in pieces, side by side
	env      []string
}

// gate is what each change must pass: facts, on which no clock and no chance has a say. So its parts may run side by side.
var gate = []part{
	{name: "lint", command: []string{"make", "--no-print-directory", "lint"}, usual: 7, plain: true},
	{name: "unit", usual: 9, plain: true, suites: []suite{
		{module: ".", packages: []string{"./..."}},
		{module: "release", packages: []string{"./..."}},
	}},
	{name: "kernel", usual: 7, suites: []suite{
		{module: ".", packages: []string{"./routing/kernel", "./provider/agent", "./lb/onlink", "./lb/kubeproxy", "./cmd/node-agent", "./doctor/machine/probe"}, tags: "privileged", known: "none"},
	}},
	{name: "routers", usual: 6, suites: []suite{
		{module: ".", packages: []string{"./lb/bgp", "./inventory/routerconfig"}, tags: "privileged", known: "none"},
	}},
	{name: "cluster", usual: 25, suites: []suite{
		{module: "test", packages: []string{"./..."}, without: []string{"e2e", "traffic", "labs", "real", "stopwatch", "upstream"}, pieces: true},
	}},
	{name: "lab", usual: 12, places: 2, suites: []suite{{module: "test", packages: []string{"./e2e/..."}}}},
}

// rest is what depends on the clock, takes long, or draws what happens.
var rest = []part{
	{name: "bfd", usual: 12, alone: 1, clock: true, suites: []suite{
		{module: ".", packages: []string{"./lb/bgp", "./lb/kubeproxy", "./lb/mesh", "./provider/agent"}, tags: "privileged,timing", known: "privileged", flags: []string{"-test.parallel=2"}},
	}},
	{name: "traffic", usual: 15, alone: 1, clock: true, suites: []suite{{module: "test", packages: []string{"./traffic/..."}}}},
	{name: "waits", usual: 16, alone: 2, clock: true, suites: []suite{
		{module: "test", packages: []string{"./services", "./nodes", "./deploy"}, tags: "slow", known: "none"},
		{module: "release", packages: []string{"./dist"}, tags: "slow", known: "none"},
	}},
	{name: "labs", usual: 6, alone: 1, clock: true, suites: []suite{{module: "test", packages: []string{"./labs"}}}},
	{name: "kine", usual: 12, alone: 2, suites: []suite{
		{module: "test", packages: []string{"./services", "./nodes"}, pieces: true, env: []string{"PLINTH_TEST_DATASTORE=kine"}},
	}},
	{name: "chaos", usual: 16, alone: 2, suites: []suite{
		{module: "test", packages: []string{"./services", "./nodes"}, tags: "chaos", known: "none", env: []string{"PLINTH_TEST_SEED="}},
		{module: ".", packages: []string{"./lb/...", "./inventory", "./inventory/document", "./inventory/edit", "./preview", "./routing", "./sorted", "./bfd", "./provider/..."}, env: []string{"RAPID_SEED=0", "RAPID_CHECKS=1000"}},
	}},
	{name: "samples", usual: 1, plain: true, suites: []suite{ // it downloads large modules for what they ship
		{module: ".", packages: []string{"./inventory/importer"}, tags: "samples", known: "none"},
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

// stage is parts that run side by side.
type stage []part

// stages are parts in their order, those that need not be alone with those that follow them.
func stages(parts []part) (all []stage) {
	for i, p := range parts {
		if i > 0 && p.alone == 0 && parts[i-1].alone == 0 {
			all[len(all)-1] = append(all[len(all)-1], p)
			continue
		}
		all = append(all, stage{p})
	}
	return all
}

func (s stage) name() string {
	var names []string
	for _, p := range s {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// places is how many packages run side by side: two for each processor, since most of what they do is to wait.
func (s stage) places(cpus int) int {
	if s[0].alone > 0 {
		return s[0].alone
	}
	return 2 * cpus
}

func partNames() string {
	var names []string
	for _, p := range append(append([]part{}, gate...), rest...) {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ") + "; gate and rest for those of either"
}
