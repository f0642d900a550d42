package story

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab"
)

// Protocol is the number that kernels know Plinth's routes by.
const Protocol = "114"

var (
	proxyMode    = flag.String("proxy-mode", "nftables", "mode of kube-proxy: nftables or iptables")
	proxyMinSync = flag.Duration("proxy-min-sync", 0, "least time between two syncs of kube-proxy; 0: its default")
	routerOS     = flag.String("router", "", "what both routers are: frr or bird; empty: one of each")
)

// Suite is the stories of a package.
type Suite struct {
	Name     string        // that its labs begin with
	HoldTime time.Duration // of the sessions of its shared lab; zero: 3 s
	Besides  []string      // labs of other names that its stories have
	JSONLogs bool          // Plinth's programs write JSON, and a line that is none fails the suite
}

// running is the suite whose stories run.
var running Suite

// BesideName is that of a lab that a story has for itself.
func BesideName() string { return running.Name + "-beside" }

// BothName is that of a lab whose machines have VIPs on the link and routers that speak BGP.
func BothName() string { return running.Name + "-both" }

func homeName() string { return running.Name + "-home" }

// Main runs the stories of a package. It removes the labs that an earlier run of it left, and in
// the end its own.
func (s Suite) Main(m *testing.M) {
	flag.Parse()
	running = s
	ctx := context.Background()
	for _, lost := range append([]string{s.Name, BesideName(), homeName(), BothName()}, s.Besides...) {
		if err := lab.Down(ctx, lost); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	for _, name := range []string{s.Name, homeName()} {
		if l, err := lab.Open(name, nil); err == nil && code != 0 {
			logs := filepath.Join(os.TempDir(), "plinth-logs-"+name)
			fmt.Fprintln(os.Stderr, "logs of all programs:", logs, l.SaveLogs(logs))
		} else if err == nil && s.JSONLogs {
			if err := jsonAlone(filepath.Join(l.Dir(), "logs")); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
		if err := lab.Down(ctx, name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

var startShared = sync.OnceValues(func() (*lab.Lab, error) {
	topology := lab.TwoRacks()
	if *routerOS != "" {
		for i := range topology.Routers {
			topology.Routers[i].OS = *routerOS
		}
	}
	topology.ProxyMode, topology.ProxyMinSync, topology.HoldTime = *proxyMode, *proxyMinSync, running.HoldTime
	return begin(running.Name, topology)
})

// begin starts a lab with Plinth on it, which the process has until its end.
func begin(name string, topology lab.Topology, before ...func(*lab.Lab) error) (*lab.Lab, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute) // the first time it builds Kubernetes
	defer cancel()
	l, err := lab.Start(ctx, topology, lab.Options{Name: name, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	l.JSONLogs = running.JSONLogs
	for _, do := range before {
		if err := do(l); err != nil {
			return nil, err
		}
	}
	return l, l.StartPlinth(ctx, lab.Inventory(topology))
}

// Shared returns the lab with two racks, Plinth running on it: most stories of a package run on it, one
// after the other, and each leaves it as it found it.
func Shared(t *testing.T) *lab.Lab {
	t.Helper()
	l, err := startShared()
	must(t, err)
	return l
}

// Beside starts another lab beside the shared one, with Plinth on it, for the
// length of a story.
func Beside(t *testing.T, topology lab.Topology) *lab.Lab {
	t.Helper()
	l := Lab(t, BesideName(), topology)
	must(t, l.StartPlinth(t.Context(), lab.Inventory(topology)))
	return l
}
