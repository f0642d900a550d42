// Package stopwatch goes through the quick start on fresh real machines, with the files of a
// release and nothing else, and says how long it takes until the first page is open.
package stopwatch

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/real"
)

var release = flag.String("release", "../../dist", "the folder of the release's files")

const (
	labName = "stopwatch"
	// limit is how long the quick start may take from init to the first page, without a download.
	limit = 3 * time.Minute
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctx := context.Background()
	if err := lab.Down(ctx, labName); err != nil { // what an earlier run that was killed has left
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestQuickStartOnTheLink(t *testing.T) {
	g := fresh(t, real.Options{OnLink: true})
	quickStart(t, g, "### On the link", "", func(ctx context.Context, vip netip.Addr) error {
		return g.Lab.WaitServedFrom(ctx, lab.Phone, vip)
	})
}

func TestQuickStartWithARouterThatSpeaksBGP(t *testing.T) {
	g := fresh(t, real.Options{RouterOS: lab.FRR})
	router := g.Lab.Topology.Routers[0]
	at := g.Lab.Topology.RouterAddress(router.Name, g.Lab.Topology.Racks[0].Name).V4
	answers := fmt.Sprintf(" --router %s --router-asn %d --asn %d --pool %s", at, router.ASN, lab.MachineASN, lab.PublicPool4)
	quickStart(t, g, "### With a router that speaks BGP", answers, g.Lab.WaitServed)
}

// fresh returns a cluster of machines on which nothing of Plinth's is, and somebody with the quick
// start, an inventory and the files of a release.
func fresh(t *testing.T, o real.Options) *real.Guide {
	t.Helper()
	o.Name, o.ProxyMode, o.Release, o.OtherPods = labName, "nftables", *release, true
	t.Cleanup(func() {
		if l, err := lab.Open(labName, nil); err == nil && t.Failed() {
			logs := filepath.Join(os.TempDir(), "plinth-stopwatch-logs")
			t.Log("logs of all programs: ", logs, " ", l.SaveLogs(logs))
		}
		if err := lab.Down(context.Background(), labName); err != nil {
			t.Error(err)
		}
	})
	g, err := real.Start(t.Context(), o)
	must(t, err)
	g, err = g.Page("quick-start.md")
	must(t, err)
	return g
}

// quickStart goes through the page, by one of two ways to install, until somebody opens a page. What init asks is answered by flags; the
// kubelets here have no --node-ip, so that it has to be told the addresses of the Nodes as well.
func quickStart(t *testing.T, g *real.Guide, way, answers string, open func(context.Context, netip.Addr) error) {
	t.Helper()
	version := versionOf(t, *release)
	begun := time.Now()
	step := func(what string) { t.Logf("%6.1f s  %s", time.Since(begun).Seconds(), what) }
	run := func(heading string, block int, replace ...string) string {
		t.Helper()
		blocks, err := g.Commands(heading)
		must(t, err)
		commands := strings.ReplaceAll(blocks[block], "1.2.3", version)
		out, err := g.Run(t.Context(), commands, replace...)
		must(t, err)
		return out
	}

	for _, m := range g.Lab.Topology.Machines() {
		answers += fmt.Sprintf(" --address %s=%s", m.Name, g.Lab.Topology.MachineAddress(m.Name).V4)
	}
	run("## 1. Check what you have", 0)
	step("the files are what they should be")
	t.Log(run("## 2. Write the inventory", 0, "./plinth init", "rm inventory.yaml && ./plinth init --yes"+answers))
	run("## 2. Write the inventory", 1)
	step("the inventory is written, and valid")
	images, err := g.Commands("## 3. Bring the images to the machines")
	must(t, err)
	for _, m := range g.Lab.Topology.Machines() {
		_, err := g.Lab.InMachine(t.Context(), m.Name, "sh", "-ec", "cd "+g.Folder()+"\n"+strings.ReplaceAll(images[0], "1.2.3", version))
		must(t, err)
	}
	step("all machines have the images")
	install := 0
	if g.Lab.Topology.Routers[0].OS != lab.Plain {
		config := run(way, 0)
		must(t, g.Lab.ConfigureRouter(t.Context(), g.Lab.Topology.Routers[0].Name, config))
		step("the router knows its side")
		install = 1
	}
	run(way, install)
	step("Plinth is installed, and ready")
	run("## 5. Open a page", 0, "--image=nginx", "--image="+lab.WebImage, "--port=80", "--port=80 --target-port=8080")
	vips, err := g.Lab.VIPs(t.Context(), "web")
	must(t, err)
	step(fmt.Sprintf("the Service has %v", vips))
	must(t, open(t.Context(), first(t, vips)))
	step("the first page is open")
	if took := time.Since(begun); took > limit {
		t.Errorf("that took %v", took)
	}
	out, err := g.Run(t.Context(), "./plinth status && ./plinth why svc/default/web")
	must(t, err)
	t.Log(out)
}

// versionOf is the version of a release without its v.
func versionOf(t *testing.T, folder string) string {
	t.Helper()
	charts, err := filepath.Glob(filepath.Join(folder, "plinth-[0-9]*.tgz"))
	must(t, err)
	if len(charts) != 1 {
		t.Fatalf("%s has the charts %v: `make release` makes one", folder, charts)
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(charts[0]), "plinth-"), ".tgz")
}

func first(t *testing.T, vips []netip.Addr) netip.Addr {
	t.Helper()
	if len(vips) == 0 {
		t.Fatal("the Service has no VIP")
	}
	return vips[0]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
