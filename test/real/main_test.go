package real

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"plinth.dev/plinth/test/components"
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

// begin starts the lab, three machines behind a router, and does what comes before a
// guide's first command: a cluster that runs. Its machines import the images that
// `make images` has made.
var begin = sync.OnceValues(func() (*guide, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute) // the first time it builds Kubernetes and containerd
	defer cancel()
	root, err := components.Root()
	if err != nil {
		return nil, err
	}
	t := lab.Homelab()
	t.Real, t.ProxyMode = true, *proxyMode
	t.Routers[0].OS = *routerOS
	for _, name := range []string{"plinth-cloud-controller-manager", "plinth-agent"} {
		archive := filepath.Join(root, "bin", "images", name+".tar")
		if _, err := os.Stat(archive); err != nil {
			return nil, fmt.Errorf("%w: `make images` makes it", err)
		}
		t.Images = append(t.Images, archive)
	}
	l, err := lab.Start(ctx, t, lab.Options{Name: labName, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	g, err := newGuide(root, l)
	if err != nil {
		return nil, err
	}
	return g, g.install(ctx)
})

// installed returns the lab with Plinth on it, and the guide that put it there.
func installed(t *testing.T) (*lab.Lab, *guide) {
	t.Helper()
	g, err := begin()
	must(t, err)
	return g.lab, g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plinthUp waits until all of Plinth runs and every machine is in order.
func plinthUp(ctx context.Context, l *lab.Lab) error {
	for _, name := range []string{"plinth-cloud-controller-manager", "plinth-agent"} {
		if err := l.WaitPods(ctx, 2*time.Minute, lab.PlinthNamespace, "app.kubernetes.io/name="+name); err != nil {
			return err
		}
	}
	return errors.Join(l.WaitReady(ctx, 2*time.Minute), l.WaitFabric(ctx))
}
