//go:build fleet

package agent

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

var (
	fleetKubeconfig = flag.String("fleet.kubeconfig", "", "file that says how the API server is reached")
	fleetNodes      = flag.String("fleet.nodes", "", "names of the Nodes that have a watcher, separated by commas")
	fleetWatch      = flag.String("fleet.watch", "agent", "what each of them has: agent, or kube-proxy")
)

// fleetPoll is the pause between two looks at how far the watchers are.
const fleetPoll = 20 * time.Millisecond

// fleetWatcher is what watches the API server for one Node.
type fleetWatcher interface {
	run(ctx context.Context)
	ready() bool  // it has been told all that it needs
	mark() string // of the inventory that is in force; empty: there is none
}

// fleetKinds make watchers.
var fleetKinds = map[string]func(config *rest.Config, node string, carried *fleetTraffic) (fleetWatcher, error){
	"agent": newFleetAgent, "kube-proxy": newFleetProxy,
}

// TestFleet is no test, but the program of test/bench/fleet in which many Nodes have a watcher each, with connections
// of its own. It reads a word a line: "start" starts all watchers at once, "renew" ends all watches, so that each goes on
// from where it was, "count" prints what connections carried so far, and the end of the input ends
// the program. It prints, as often as that changes:
//
//	built N                 watchers are there and have asked nothing yet
//	ready N                 of them have been told all
//	mark MARK N             of them have the inventory of that mark in force
//	renewed N               watches ended
//	carried BYTES DIALS EVENTS WATCHES
//	                        received by all of them, connections that they opened, events of EndpointSlices that they got, and watches that began
func TestFleet(t *testing.T) {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	klog.SetSlogLogger(slog.Default())
	build := fleetKinds[*fleetWatch]
	if build == nil || *fleetNodes == "" {
		t.Fatalf("-fleet.watch is one of %v, and -fleet.nodes names Nodes: see test/bench/fleet", slices.Sorted(maps.Keys(fleetKinds)))
	}
	carried := &fleetTraffic{open: map[*fleetBody]bool{}}
	var all []fleetWatcher
	for node := range strings.SplitSeq(*fleetNodes, ",") {
		config, err := clientcmd.BuildConfigFromFlags("", *fleetKubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.Dial = carried.dial // so that no two share a connection, too
		config.Wrap(carried.wrap)
		watcher, err := build(config, node, carried)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, watcher)
	}
	fmt.Println("built", len(all))
	fleetServe(t.Context(), os.Stdin, all, carried)
}

// fleetServe does the words that it reads until the input ends.
func fleetServe(ctx context.Context, input io.Reader, all []fleetWatcher, carried *fleetTraffic) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for lines := bufio.NewScanner(input); lines.Scan(); {
		switch lines.Text() {
		case "start":
			for _, watcher := range all {
				go watcher.run(ctx)
			}
			go fleetReport(ctx, all)
		case "renew":
			fmt.Println("renewed", carried.endWatches())
		case "count":
			fmt.Println("carried", carried.received.Load(), carried.dials.Load(), carried.slices.Load(), carried.watches.Load())
		default:
			fmt.Fprintf(os.Stderr, "%q is neither start, renew nor count\n", lines.Text())
		}
	}
}

// fleetReport prints how far the watchers are.
func fleetReport(ctx context.Context, all []fleetWatcher) {
	tick := time.NewTicker(fleetPoll)
	defer tick.Stop()
	printed := map[string]int{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := map[string]int{}
		for _, watcher := range all {
			if watcher.ready() {
				now["ready"]++
			}
			if mark := watcher.mark(); mark != "" {
				now["mark "+mark]++
			}
		}
		for what, count := range now {
			if printed[what] != count {
				fmt.Println(what, count)
			}
		}
		printed = now
	}
}
