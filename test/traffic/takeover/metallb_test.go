package takeover

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/bench/metallb"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestATakeoverFromMetalLBsL2ModeMovesNoAddressAndBreaksNoConnection follows docs/guides/migrate-on-link.md, command by
// command: each address stays on the machine that has it, so that no host's neighbour cache has to change.
func TestATakeoverFromMetalLBsL2ModeMovesNoAddressAndBreaksNoConnection(t *testing.T) {
	l, theirs := servedByMetalLB(t)
	vips := exposed(t, l, "left-a", "left-b", "left-c", "left-d")
	was := story.Owned(t, l, slices.Collect(maps.Keys(vips)))
	t.Logf("MetalLB's speakers answer: %v", was)
	r := newReader(t, l)
	r.put(workload("Deployment", "metallb-system", "controller") + "---\n" + workload("DaemonSet", "metallb-system", "speaker"))
	r.imports("nodes,metallb", vips)
	watch := watchHome(t, l, was)

	r.before(vips, was)
	r.follow("From MetalLB's L2 mode", map[string]func(string){
		"kubectl -n metallb-system scale deployment controller ": func(line string) {
			r.types(lab.ControlHost, line)
			must(t, l.Stop(t.Context(), metallb.Controller, syscall.SIGTERM))
		},
		"kubectl apply -k ": r.begins(len(vips)),
		"kubectl get ipaddresses ": func(line string) {
			held := r.types(lab.ControlHost, line)
			for vip := range vips {
				if !strings.Contains(held, vip.String()) {
					t.Errorf("%s is not among the addresses that are held", vip)
				}
			}
			story.PauseFor(t, 5*time.Second) // both run
		},
		"kubectl -n metallb-system delete daemonset speaker": func(line string) {
			story.PauseFor(t, 3*time.Second) // somebody reads what is printed
			r.types(lab.ControlHost, line)
			for _, m := range l.Topology.Machines() {
				must(t, l.Stop(t.Context(), theirs(m.Name), syscall.SIGTERM))
			}
		},
	})
	story.PauseFor(t, 15*time.Second) // longer than a host trusts its cache without an answer

	watch()
	story.Stays(t, l, was)
	r.after(vips)
}

// servedByMetalLB is a home without Plinth on which MetalLB's controller and speakers run. theirs is what the speaker of a
// machine is called.
func servedByMetalLB(t *testing.T) (l *lab.Lab, theirs func(machine string) string) {
	t.Helper()
	programs := t.TempDir()
	must(t, metallb.Build(programs))
	l = homeWithoutPlinth(t)
	c := metallb.Config{Pools: []string{lab.LANPool4.String(), lab.LANPool6.String()}, L2: true}
	for _, m := range l.Topology.Machines() {
		c.Nodes = append(c.Nodes, metallb.Node{Name: m.Name, Address: l.Topology.MachineAddress(m.Name).V4})
	}
	must(t, metallb.Install(programs, c, func(args ...string) error {
		_, err := l.Kubectl(t.Context(), args...)
		return err
	}))
	inside, err := l.InsideKubeconfig()
	must(t, err)
	run := func(host, name, program string, flags []string) {
		t.Helper()
		_, err := l.Run(host, name, append([]string{filepath.Join(programs, program)}, flags...)...)
		must(t, err)
	}
	run(lab.ControlHost, metallb.Controller, metallb.Controller, metallb.ControllerFlags(inside))
	theirs = func(machine string) string { return metallb.Speaker + "-" + machine }
	for _, n := range c.Nodes {
		run(n.Name, theirs(n.Name), metallb.Speaker, metallb.MemberFlags(inside, n.Name, n.Address))
	}
	return l, theirs
}
