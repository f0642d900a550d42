package vips

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/bench/fib"
	"plinth.dev/plinth/test/lab/netns"
)

const (
	routerSpace = "router"
	machineAddr = "10.1.0.11"
	routerAddr  = "10.1.0.1"
	machineASN  = 65010
	routerASN   = 65101
)

// router is BIRD in a namespace, and what its kernel routes to.
type router struct {
	b      *testing.B
	ctl    string
	routes *fib.Table
}

// newRouter starts BIRD, which knows the machine, and follows its kernel's routes.
func newRouter(b *testing.B) *router {
	b.Helper()
	dir := b.TempDir()
	r := &router{b: b, ctl: filepath.Join(dir, "bird.ctl")}
	check(b, netns.Add(routerSpace))
	b.Cleanup(func() { check(b, netns.Delete(routerSpace)) })
	check(b, netns.IP("", "link add up0 type veth peer name down0 netns "+routerSpace, "addr add "+machineAddr+"/24 dev up0", "link set up0 up"))
	check(b, netns.IP(routerSpace, "addr add "+routerAddr+"/24 dev down0", "link set down0 up"))
	routes, err := fib.Follow(routerSpace)
	check(b, err)
	b.Cleanup(func() { check(b, routes.Close()) })
	r.routes = routes
	conf := filepath.Join(dir, "bird.conf")
	check(b, os.WriteFile(conf, fmt.Appendf(nil, `router id %s;
protocol device {}
protocol kernel { ipv4 { import none; export all; }; }
protocol bgp w1 { local as %d; neighbor %s as %d; passive on; graceful restart on; ipv4 { import all; export none; }; }
`, routerAddr, routerASN, machineAddr, machineASN), 0o600))
	bird := exec.Command("bird", "-f", "-c", conf, "-s", r.ctl, "-P", filepath.Join(dir, "bird.pid"))
	check(b, netns.Start(routerSpace, bird))
	b.Cleanup(func() { _ = bird.Process.Kill(); _ = bird.Wait() })
	return r
}

func (r *router) ask(question string) string {
	out, _ := exec.Command("birdc", "-s", r.ctl, question).CombinedOutput()
	return string(out)
}

// await waits until ok, which sees the routes.
func (r *router) await(limit time.Duration, what string, ok func(fib.View) bool) {
	r.b.Helper()
	if err := r.routes.Await(limit, ok); err != nil {
		r.b.Fatalf("%s: %v\n%s", what, err, r.ask("show protocols all w1"))
	}
}

// holds waits until the router has that many routes.
func (r *router) holds(limit time.Duration, n int) {
	r.b.Helper()
	r.await(limit, fmt.Sprintf("the router has %d routes", n), func(v fib.View) bool { return len(v.There) == n })
}

// lost is how many routes the router's kernel has lost so far.
func (r *router) lost() int { return r.routes.Deleted() }

// established waits until the session is up and the router has been told all: until then
// it keeps what it had from before.
func (r *router) established() {
	r.b.Helper()
	apiserver.Eventually(r.b, 30*time.Second, "the session is up", func(context.Context) error {
		if out := r.ask("show protocols all w1"); !strings.Contains(out, "Established") || strings.Contains(out, "graceful restart active") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}

func check(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
