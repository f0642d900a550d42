package takeover

import (
	"context"
	"fmt"
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

	"plinth.dev/plinth/test/bench/kubevip"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestATakeoverFromKubeVIPAndBackMovesNoAddressAndBreaksNoConnection follows docs/guides/migrate-on-link.md there and back,
// command by command, beside kube-vip itself.
func TestATakeoverFromKubeVIPAndBackMovesNoAddressAndBreaksNoConnection(t *testing.T) {
	l, theirs := servedByKubeVIP(t)
	vips := exposedAtHome(t, l, withAddresses(kinds(50, append(slices.Clone(outside), local)...))...)
	was := story.Owned(t, l, slices.Collect(maps.Keys(vips)))
	t.Logf("kube-vip answers: %v", was)
	r := newReader(t, l, onLink, "home.yaml")
	r.imports("nodes,kube-vip", vips)
	watch := watchHome(t, l, was)

	r.before(vips, was)
	r.follow("From kube-vip's ARP mode", map[string]func(string){
		"kubectl apply -k ": r.begins(len(vips)),
		"kubectl get ipaddresses ": func(line string) {
			r.types(lab.ControlHost, line)
			story.PauseFor(t, 5*time.Second) // both run
		},
		"kubectl -n kube-system delete daemonset kube-vip-ds": func(line string) {
			r.types(lab.ControlHost, line)
			theirs.end(syscall.SIGTERM)
		},
		"ip address show ": func(line string) {
			for vip, machine := range was {
				if left := r.types(machine, line+" || true", "192.168.1.200", vip.String()); left != "" {
					t.Errorf("kube-vip left %s on an interface of %s", vip, machine)
				}
			}
		},
		"ip address del ": func(string) {},
	})
	story.PauseFor(t, 15*time.Second) // longer than a host trusts its cache without an answer
	watch()
	story.Stays(t, l, was)
	r.after(vips)

	watch = watchHome(t, l, was)
	must(t, os.WriteFile(filepath.Join(r.folder, "kube-vip-rbac.yaml"), []byte(kubevip.Rights()), 0o600))
	must(t, os.WriteFile(filepath.Join(r.folder, "kube-vip-ds.yaml"), []byte(kubevip.DaemonSet(lab.RackInterface)), 0o600))
	r.follow("Back to kube-vip", map[string]func(string){
		"kubectl -n default patch lease kubevip-web ": func(line string) {
			for vip, service := range vips {
				r.types(lab.ControlHost, line, "kubevip-web", "kubevip-"+service, "nuc1", was[vip])
			}
		},
		"kubectl -n plinth-system scale deployment ": func(string) { must(t, l.StopCCM(t.Context(), syscall.SIGTERM)) },
		"kubectl apply -f kube-vip-ds.yaml": func(line string) {
			r.types(lab.ControlHost, line)
			theirs.begin()
		},
		"kubectl -n kube-system rollout status ": func(string) {
			for vip, machine := range was {
				must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error { return hasAddress(ctx, l, machine, vip) }))
			}
		},
		"kubectl -n plinth-system delete daemonset plinth-agent": func(string) { stopAgents(t, l) },
	})
	story.PauseFor(t, 15*time.Second)
	watch()
	story.Stays(t, l, was)
	stillHave(t, l, vips)
}

// hasAddress is nil where an address is on the interface of a machine.
func hasAddress(ctx context.Context, l *lab.Lab, machine string, vip netip.Addr) error {
	out, err := l.Shell(ctx, machine, "/", "ip address show dev "+lab.RackInterface)
	if err == nil && !strings.Contains(out, " "+lab.VIPPrefix(vip).String()+" ") {
		err = fmt.Errorf("%s is not on %s of %s", vip, lab.RackInterface, machine)
	}
	return err
}

// servedByKubeVIP is a home without Plinth on which kube-vip runs.
func servedByKubeVIP(t *testing.T) (*lab.Lab, *instances) {
	t.Helper()
	programs := t.TempDir()
	must(t, kubevip.Build(programs))
	l := homeWithoutPlinth(t)
	r := &reader{t: t, l: l, folder: t.TempDir()}
	r.put(kubevip.DaemonSet(lab.RackInterface) + "---\n" + kubevip.Rights() + "---\n" + kubevip.Pools(lab.LANPool4.String(), lab.LANPool6.String()))
	config, err := l.AccountKubeconfig(t.Context(), kubevip.Namespace, kubevip.Account)
	must(t, err)
	home, err := kubevip.Home(programs, config)
	must(t, err)
	theirs := &instances{t: t, l: l, program: kubevip.Program, command: func(machine string) []string {
		return kubevip.Command(programs, home, machine, lab.RackInterface)
	}}
	theirs.begin()
	return l, theirs
}

// withAddresses gives Services the annotation with their addresses, as kube-vip's cloud provider does.
func withAddresses(services []*corev1.Service) []*corev1.Service {
	v4, v6 := lab.LANPool4.From(), lab.LANPool6.From()
	for _, s := range services {
		families := s.Spec.IPFamilies
		if len(families) == 0 {
			families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		}
		var addresses []string
		for _, f := range families {
			addresses = append(addresses, map[corev1.IPFamily]netip.Addr{corev1.IPv4Protocol: v4, corev1.IPv6Protocol: v6}[f].String())
		}
		s.Annotations = map[string]string{"kube-vip.io/loadbalancerIPs": strings.Join(addresses, ",")}
		v4, v6 = v4.Next(), v6.Next()
	}
	return services
}
