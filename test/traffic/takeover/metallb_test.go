package takeover

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/bench/metallb"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestATakeoverFromMetalLBsL2ModeAndBackMovesNoAddressAndBreaksNoConnection follows docs/guides/migrate-on-link.md, command by
// command, there and back: each address stays on the machine that has it, so that no host's neighbour cache has to change.
func TestATakeoverFromMetalLBsL2ModeAndBackMovesNoAddressAndBreaksNoConnection(t *testing.T) {
	l, speakers := servedByMetalLB(t)
	vips := exposedAtHome(t, l, kinds(50, atHome...)...)
	was := story.Owned(t, l, slices.Collect(maps.Keys(vips)))
	t.Logf("MetalLB's speakers answer: %v", was)
	r := newReader(t, l, onLink, "home.yaml")
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
			speakers.end(syscall.SIGTERM)
		},
	})
	story.PauseFor(t, 15*time.Second) // longer than a host trusts its cache without an answer
	watch()
	story.Stays(t, l, was)
	r.after(vips)

	watch = watchHome(t, l, was)
	must(t, os.WriteFile(filepath.Join(r.folder, "metallb-speaker.yaml"), []byte(workload("DaemonSet", "metallb-system", "speaker")), 0o600))
	must(t, os.WriteFile(filepath.Join(r.folder, "l2advertisements.yaml"), []byte(metallb.Config{L2: true}.Advertisement()), 0o600))
	r.follow("Back to MetalLB's L2 mode", map[string]func(string){
		"kubectl -n plinth-system scale deployment ": func(string) { must(t, l.StopCCM(t.Context(), syscall.SIGTERM)) },
		"kubectl apply -f metallb-speaker.yaml": func(line string) {
			r.types(lab.ControlHost, line)
			speakers.begin()
		},
		"kubectl -n metallb-system rollout status ": func(string) { story.PauseFor(t, 5*time.Second) }, // it takes a pod for ready that listens
		"kubectl apply -f l2advertisements.yaml": func(line string) {
			r.types(lab.ControlHost, line)
			story.PauseFor(t, 3*time.Second) // somebody reads what is printed
		},
		"kubectl -n plinth-system delete daemonset plinth-agent": func(string) { stopAgents(t, l) },
		"kubectl -n metallb-system scale deployment controller ": func(line string) {
			r.types(lab.ControlHost, line)
			speakers.control()
		},
	})
	story.PauseFor(t, 15*time.Second)
	watch()
	story.Stays(t, l, was)
	stillHave(t, l, vips)
}

// atHome are all kinds of Services that MetalLB serves in L2 mode.
var atHome = slices.Concat(outside, []func(*corev1.Service){
	local,
	func(s *corev1.Service) { sharing(s, "10.10.1.%d", 240, 8, lab.WebPort, 7) },
	func(s *corev1.Service) { sharing(s, "10.10.1.%d", 240, 8, 8080, 8007) },
})

// servedByMetalLB is a home without Plinth on which MetalLB's controller and speakers run.
func servedByMetalLB(t *testing.T) (*lab.Lab, *instances) {
	t.Helper()
	l := homeWithoutPlinth(t)
	c := metallb.Config{Pools: []string{lab.LANPool4.String(), lab.LANPool6.String()}, L2: true}
	nodes := map[string]netip.Addr{}
	for _, m := range l.Topology.Machines() {
		nodes[m.Name] = l.Topology.MachineAddress(m.Name).V4
		c.Nodes = append(c.Nodes, metallb.Node{Name: m.Name, Address: nodes[m.Name]})
	}
	return l, withMetalLB(t, l, c, func(kubeconfig, machine string) []string {
		return metallb.MemberFlags(kubeconfig, machine, nodes[machine])
	})
}

// withMetalLB builds and installs MetalLB in a lab, and starts its controller, and a speaker with such flags on each machine.
func withMetalLB(t *testing.T, l *lab.Lab, c metallb.Config, flags func(kubeconfig, machine string) []string) *instances {
	t.Helper()
	programs := t.TempDir()
	must(t, metallb.Build(programs))
	must(t, metallb.Install(programs, c, func(args ...string) error {
		_, err := l.Kubectl(t.Context(), args...)
		return err
	}))
	kubeconfig, err := l.InsideKubeconfig()
	must(t, err)
	command := func(program string, flags []string) []string {
		return append([]string{filepath.Join(programs, program)}, flags...)
	}
	speakers := &instances{
		t: t, l: l, program: metallb.Speaker,
		command: func(machine string) []string { return command(metallb.Speaker, flags(kubeconfig, machine)) },
		control: func() {
			_, err := l.Run(lab.ControlHost, metallb.Controller, command(metallb.Controller, metallb.ControllerFlags(kubeconfig))...)
			must(t, err)
		},
	}
	speakers.control()
	speakers.begin()
	return speakers
}
