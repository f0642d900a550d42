// Package plinth_test keeps the rules of the house: which package may import
// which, and what may be found where. docs/explanation/house.md gives the reasons.
package plinth_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "plinth.dev/plinth"

// floors lists every package of the house. A package imports only from floors
// below its own.
var floors = map[string]int{
	"cmd/cloud-controller-manager": 8,
	"cmd/plinth":                   8,
	"cmd/node-agent":               8,
	"provider/agent":               7,
	"provider/agent/report":        6,
	"provider":                     5,
	"provider/survey":              5,
	"provider/agent/agenttest":     5,
	"provider/agent/disk":          5,
	"provider/agent/link":          5,
	"provider/agent/proxy":         5,
	"provider/agent/watch":         5,
	"diagnose":                     4,
	"doctor/machine/probe":         4,
	"provider/admission":           4,
	"provider/installation":        4,
	"provider/agent/plan":          4,
	"provider/agent/offers":        4,
	"provider/vip":                 4,
	"provider/node":                4,
	"provider/cluster":             4,
	"provider/stock":               4,
	"provider/volume":              4,
	"provider/directory":           3,
	"inventory/source":             3,
	"preview":                      3,
	"doctor/machine":               3,
	"provider/claim":               2,
	"provider/nodeindex":           2,
	"provider/endpoints":           2,
	"provider/taken":               2,
	"provider/event":               2,
	"provider/leader":              2,
	"provider/queue":               2,
	"lb/bgp":                       2,
	"lb/kubeproxy":                 2,
	"lb/mesh":                      2,
	"lb/onlink":                    2,
	"routing/kernel":               2,
	"inventory/routerconfig":       2,
	"inventory/importer":           2,
	"doctor":                       2,
	"inventory/edit":               2,
	"inventory/inventorytest":      2,
	"bfd":                          1,
	"lb/ipam":                      1,
	"lb/advertise":                 1,
	"routing":                      1,
	"inventory/document":           1,
	"provider/agent/latest":        0,
	"buildinfo":                    0,
	"docs":                         0,
	"durable":                      0,
	"golden":                       0,
	"inventory":                    0,
	"lb":                           0,
	"memory":                       0,
	"netns":                        0,
	"sorted":                       0,
	"uptime":                       0,
	"wake":                         0,
	"wait":                         0,
}

// pure lists the packages that take values and return values, each with what it
// may import besides the standard library and the floors below.
var pure = map[string][]string{
	"inventory":              {"go4.org/netipx"},
	"inventory/document":     {"go.yaml.in/yaml/v4", "go4.org/netipx"},
	"inventory/edit":         {"go4.org/netipx"},
	"lb":                     {},
	"lb/ipam":                {},
	"lb/advertise":           {},
	"routing":                {},
	"preview":                {},
	"provider/agent/plan":    {"go4.org/netipx", "k8s.io/api/core/v1"},
	"provider/agent/offers":  {"k8s.io/api/core/v1", "k8s.io/api/discovery/v1", "k8s.io/api/networking/v1"},
	"diagnose":               {},
	"doctor":                 {"sigs.k8s.io/yaml", "k8s.io/api/apps/v1", "k8s.io/api/coordination/v1", "k8s.io/api/core/v1", "k8s.io/api/networking/v1", "k8s.io/apimachinery/pkg/apis/meta/v1"},
	"doctor/machine":         {"sigs.k8s.io/yaml"},
	"sorted":                 {},
	"docs":                   {},
	"inventory/routerconfig": {},
	"inventory/importer":     {"go.yaml.in/yaml/v4", "sigs.k8s.io/yaml", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/apis/meta/v1", "go.universe.tf/metallb/api/v1beta1", "go.universe.tf/metallb/api/v1beta2"},
}

// forTests lists the rooms that tests alone import.
var forTests = []string{"golden", "inventory/inventorytest", "netns", "provider/agent/agenttest", "wait"}

// impure are the parts of the standard library through which a pure package
// would reach a disk, a network or another process.
var impure = []string{"os", "os/exec", "net", "net/http", "syscall", "io/ioutil", "math/rand", "math/rand/v2"}

// doors says which packages alone may import a library that touches the world.
var doors = map[string][]string{
	"github.com/osrg/gobgp":          {"lb/bgp"},
	"github.com/eapache/channels":    {"lb/bgp"},
	"github.com/vishvananda/netlink": {"lb/bgp", "lb/kubeproxy", "routing/kernel"},
	"k8s.io": {
		"provider", "provider/admission", "provider/agent", "provider/agent/link", "provider/agent/offers", "provider/agent/plan", "provider/agent/report", "provider/agent/watch", "provider/agent/agenttest", "provider/claim", "provider/cluster", "provider/directory", "provider/endpoints", "provider/event", "provider/installation", "provider/leader", "provider/node", "provider/nodeindex", "provider/queue", "provider/stock", "provider/survey", "provider/taken", "provider/vip", "provider/volume", "inventory/source", "inventory/importer", "doctor",
		"cmd/cloud-controller-manager", "cmd/node-agent", "cmd/plinth",
	},
}

// unwanted are names that say nothing about what is in a room.
var unwanted = []string{"util", "utils", "common", "types", "internal", "pkg", "helpers", "misc"}

type room struct {
	ImportPath string
	Dir        string
	Name       string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

func (r room) place() string { return strings.TrimPrefix(r.ImportPath, module+"/") }

func TestEveryPackageHasItsFloor(t *testing.T) {
	for _, r := range rooms(t) {
		if _, ok := floors[r.place()]; !ok {
			t.Errorf("%s has no floor in this test: a new room is a decision, write it down here and in docs/explanation/house.md", r.place())
		}
		if slices.Contains(unwanted, path.Base(r.place())) {
			t.Errorf("%s: the name does not say what is inside", r.place())
		}
		if !slices.Contains(r.GoFiles, "doc.go") && r.Name != "main" {
			t.Errorf("%s has no doc.go that says in a sentence what it promises", r.place())
		}
	}
}

// floorRow is a row of the table of floors in docs/explanation/house.md: the floor and its packages.
var floorRow = regexp.MustCompile(`(?m)^\| (\d) \| (.*?) \|`)

// TestHousePageListsEveryPackageOnItsFloorHighestFirst holds the table of the page against the floors of this file.
func TestHousePageListsEveryPackageOnItsFloorHighestFirst(t *testing.T) {
	listed := map[string]int{}
	highest := math.MaxInt
	for _, m := range floorRow.FindAllStringSubmatch(read(t, "docs/explanation/house.md"), -1) {
		floor, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if floor > highest {
			t.Errorf("house.md lists %s on floor %d below a row of floor %d: the highest floor comes first", m[2], floor, highest)
		}
		highest = floor
		for place := range strings.SplitSeq(m[2], ", ") {
			listed[strings.Trim(place, "`")] = floor
		}
	}
	if diff := cmp.Diff(floors, listed); diff != "" {
		t.Errorf("packages and their floors (-house_test.go +house.md):\n%s", diff)
	}
}

// placeOf matches a name and the file that it is declared in, as the page's table of decisions has them.
var placeOf = regexp.MustCompile("`(\\w+)`(?: and `(\\w+)`)? in `([\\w/]+\\.go)`")

func TestHousePageNamesDecisionsThatStandWhereItSays(t *testing.T) {
	places := placeOf.FindAllStringSubmatch(read(t, "docs/explanation/house.md"), -1)
	if len(places) < 10 {
		t.Errorf("house.md names %d places, want the table of decisions", len(places))
	}
	for _, place := range places {
		text := read(t, place[3])
		for _, name := range place[1:3] {
			declared := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|var |type )` + name + `\b`)
			if name != "" && !declared.MatchString(text) {
				t.Errorf("house.md says that %s is declared in %s, which is not so", name, place[3])
			}
		}
	}
}

func TestImportsGoDownOnly(t *testing.T) {
	for _, r := range rooms(t) {
		for _, imp := range r.Imports {
			below, ours := strings.CutPrefix(imp, module+"/")
			if ours && floors[below] >= floors[r.place()] {
				t.Errorf("%s (floor %d) imports %s (floor %d)", r.place(), floors[r.place()], below, floors[below])
			}
			if ours && slices.Contains(forTests, below) {
				t.Errorf("%s imports %s, which is for tests", r.place(), below)
			}
		}
	}
}

func TestPurePackagesReachNothingOutside(t *testing.T) {
	for _, r := range rooms(t) {
		allowed, isPure := pure[r.place()]
		if !isPure {
			continue
		}
		for _, imp := range r.Imports {
			switch {
			case slices.Contains(impure, imp):
				t.Errorf("%s is pure and imports %s", r.place(), imp)
			case strings.HasPrefix(imp, module+"/"), !strings.Contains(strings.Split(imp, "/")[0], "."):
			case !slices.Contains(allowed, imp):
				t.Errorf("%s is pure and imports %s", r.place(), imp)
			}
		}
	}
}

func TestPurePackagesDoNotAskTheClock(t *testing.T) {
	for _, r := range rooms(t) {
		if _, isPure := pure[r.place()]; !isPure {
			continue
		}
		for _, file := range r.GoFiles {
			text, err := os.ReadFile(filepath.Join(r.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"time.Now(", "time.Since(", "time.Sleep(", "time.After("} {
				if strings.Contains(string(text), call) {
					t.Errorf("%s/%s is pure and calls %s)", r.place(), file, call)
				}
			}
		}
	}
}

func TestOnlyDoorsTouchTheWorld(t *testing.T) {
	for _, r := range rooms(t) {
		for _, imp := range r.Imports {
			for library, allowed := range doors {
				within := imp == library || strings.HasPrefix(imp, library+"/")
				if within && !slices.Contains(allowed, r.place()) {
					t.Errorf("%s imports %s, which only %s may", r.place(), imp, strings.Join(allowed, ", "))
				}
			}
		}
	}
}

func TestAgentDoesNotLinkTheController(t *testing.T) {
	for _, r := range rooms(t) {
		if r.place() != "cmd/node-agent" {
			continue
		}
		for _, dep := range r.Deps {
			for _, heavy := range []string{"k8s.io/cloud-provider", "k8s.io/apiserver"} {
				if dep == heavy || strings.HasPrefix(dep, heavy+"/") {
					t.Errorf("the agent links %s", dep)
				}
			}
		}
	}
}

// rooms asks the go command for every package of the module but this one.
func rooms(t *testing.T) []room {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps=false", "-json=ImportPath,Dir,Name,GoFiles,Imports,Deps", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []room
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var r room
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if r.ImportPath != module {
			all = append(all, r)
		}
	}
	if len(all) < len(pure) {
		t.Fatalf("go list found %d packages: the rules would hold of nothing", len(all))
	}
	return all
}
