// Package e2e tells what Plinth does as stories on a whole lab: a real control
// plane, real routers, a real kernel. One story a file. Those of VIPs on the link are in package onlink.
package e2e

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

// sharedName is the lab that most stories run on, one after the other. Each
// leaves it as it found it.
const sharedName = "e2e"

// besideName is that of a lab that a story has for itself.
const besideName = "beside"

var (
	proxyMode    = flag.String("proxy-mode", "nftables", "mode of kube-proxy: nftables or iptables")
	routerOS     = flag.String("router", "", "what both routers are: frr or bird; empty: one of each")
	others       = flag.Int("others", 0, "Services of other programs that kube-proxy has rules for beside")
	everyFailure = flag.Bool("every-failure", false, "hold what is simulated against each machine, router and rack, and ten pairs of them")
	proxyMinSync = flag.Duration("proxy-min-sync", 0, "least time between two syncs of kube-proxy; 0: its default")
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctx := context.Background()
	if os.Getenv(makerVariable) != "" {
		makeAndHang(ctx)
	}
	// What an earlier run that was killed has left.
	for _, name := range []string{sharedName, besideName, "traces"} {
		if err := lab.Down(ctx, name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	if l, err := lab.Open(sharedName, nil); err == nil && code != 0 {
		logs := filepath.Join(os.TempDir(), "plinth-e2e-logs")
		fmt.Fprintln(os.Stderr, "logs of all programs:", logs, l.SaveLogs(logs))
	}
	if err := lab.Down(ctx, sharedName); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var start = sync.OnceValues(func() (*lab.Lab, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute) // the first time it builds Kubernetes
	defer cancel()
	topology := lab.TwoRacks()
	if *routerOS != "" {
		for i := range topology.Routers {
			topology.Routers[i].OS = *routerOS
		}
	}
	topology.ProxyMode, topology.ProxyMinSync = *proxyMode, *proxyMinSync
	l, err := lab.Start(ctx, topology, lab.Options{Name: sharedName, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	return l, l.StartPlinth(ctx, lab.Inventory(l.Topology))
})

// shared returns the lab with two racks, Plinth running on it.
func shared(t *testing.T) *lab.Lab {
	t.Helper()
	l, err := start()
	must(t, err)
	return l
}
