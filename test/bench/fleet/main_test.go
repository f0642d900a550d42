package fleet

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/components"
)

var (
	rounds    = flag.Int("rounds", 3, "how often the contenders take turns; the median counts")
	nodes     = flag.Int("nodes", 5000, "Nodes that there are")
	racks     = flag.Int("racks", 100, "racks that their machines stand in")
	services  = flag.Int("services", 10_000, "Services that there are")
	endpoints = flag.Int("endpoints", 40_000, "their endpoints, in one EndpointSlice each")
	watched   = flag.Int("watchers", 50, "Nodes that have a watcher: an agent, or a kube-proxy")
	pods      = flag.Int("pods", 1000, "pods of a rollout")
	resting   = flag.Duration("rest", 100*time.Second, "for how long the cluster at rest is looked at")
	mode      = flag.String("mode", "fabric", "the mode of the pod network: none, direct, fabric or overlay")
	profiles  = flag.String("profiles", "", "folder for a profile of the API server at rest with each contender, which costs the server something, too; empty: none is taken")
	only      = flag.String("only", "", "names of contenders, comma separated: kube-proxy, agent; else all")
)

// program is the program that has many watchers in it.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run()) // there is nothing to build for
	}
	os.Exit(measure(m))
}

func measure(m *testing.M) (code int) {
	folder, err := os.MkdirTemp("", "plinth-bench-")
	if err == nil {
		defer os.RemoveAll(folder)
		err = build(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return apiserver.Main(m)
}

func build(folder string) error {
	root, err := components.Root()
	if err != nil {
		return err
	}
	if err := components.Own(folder); err != nil {
		return err
	}
	program = filepath.Join(folder, "watchers")
	return components.GoTest(context.Background(), root, "-tags", "fleet", "-o", program, "./provider/agent")
}
