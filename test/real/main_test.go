package real

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

var (
	proxyMode = flag.String("proxy-mode", "nftables", "mode of kube-proxy: nftables or iptables")
	install   = flag.String("install", "helm", "how Plinth is installed: helm or overlay")
	routerOS  = flag.String("router", lab.FRR, "what the router is: frr or bird")
	keep      = flag.Bool("keep", false, "leave the lab running if a story fails")
)

const labName = "real"

func TestMain(m *testing.M) {
	flag.Parse()
	ctx := context.Background()
	// What an earlier run that was killed has left.
	if err := lab.Down(ctx, labName); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if l, err := lab.Open(labName, nil); err == nil && code != 0 {
		logs := filepath.Join(os.TempDir(), "plinth-real-logs")
		fmt.Fprintln(os.Stderr, "logs of all programs:", logs, l.SaveLogs(logs))
		if *keep {
			os.Exit(code)
		}
	}
	if err := lab.Down(ctx, labName); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// mistaken is what became of an installation with a mistake, before that which the stories are about.
var mistaken refusal

// begin starts the lab and puts Plinth on it.
var begin = sync.OnceValues(func() (*Guide, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute) // the first time it builds Kubernetes and containerd
	defer cancel()
	g, err := Start(ctx, Options{Name: labName, Install: *install, ProxyMode: *proxyMode, RouterOS: *routerOS})
	if err != nil {
		return nil, err
	}
	if mistaken, err = refused(ctx, g); err != nil {
		return g, err
	}
	return g, g.Install(ctx)
})

// installed returns the lab with Plinth on it, and the guide that put it there.
func installed(t *testing.T) (*lab.Lab, *Guide) {
	t.Helper()
	g, err := begin()
	must(t, err)
	return g.Lab, g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
