package takeover

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/bench/kubevip"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// TestWhatAKilledKubeVIPLeavesIsNamedAndGoesWithoutALoss follows docs/guides/migrate-on-link.md, command by command, where
// kube-vip is one that leaves an address on its interface: what it put there before stands for it.
func TestWhatAKilledKubeVIPLeavesIsNamedAndGoesWithoutALoss(t *testing.T) {
	const stays, goes = "left-over", "taken-off"
	l := homeWithoutPlinth(t)
	first := lab.LANPool4.From().Next().Next()
	vips := map[netip.Addr]string{first: stays, first.Next(): goes}
	was := map[netip.Addr]string{first: l.Topology.Machines()[1].Name, first.Next(): l.Topology.Machines()[2].Name}
	for vip, service := range vips {
		heldByKubeVIP(t, l, service, vip, was[vip])
	}
	r := newReader(t, l, onLink, "home.yaml")
	r.put(kubevip.DaemonSet(lab.RackInterface) + "---\n" + kubevip.Rights())
	watch := watchHome(t, l, was)

	r.before(vips, was)
	r.follow("From kube-vip's ARP mode", map[string]func(string){
		"kubectl -n kube-system delete daemonset kube-vip-ds": func(line string) {
			r.types(lab.ControlHost, line)
			onInterface(t, l, "del", first.Next(), was[first.Next()])
		},
		"kubectl apply -k ": r.begins(len(vips)),
		"ip address show ": func(line string) {
			must(t, lab.Within(t.Context(), 40*time.Second, func(ctx context.Context) error {
				return story.InStatus(ctx, l, "default/"+stays, string(lb.AddressOnInterface))
			}))
			r.types(was[first], line, "192.168.1.200", first.String())
		},
		"ip address del ": func(line string) {
			r.types(was[first], line, "192.168.1.200", first.String(), "eth0", lab.RackInterface)
		},
	})
	story.PauseFor(t, 15*time.Second) // longer than a host trusts its cache without an answer

	watch()
	story.Stays(t, l, was)
	r.after(vips)
}

// heldByKubeVIP makes a Service with an address as kube-vip leaves it, on an interface of a machine.
func heldByKubeVIP(t *testing.T, l *lab.Lab, service string, vip netip.Addr, machine string) {
	t.Helper()
	s := story.IPv4Alone(lab.LoadBalancer(service, ""))
	s.Annotations = map[string]string{"kube-vip.io/loadbalancerIPs": vip.String(), "kube-vip.io/vipHost": machine}
	shown := make(chan error, 1)
	go func() { shown <- showStatus(t.Context(), l, service, vip) }()
	_, err := l.ExposeOutside(t.Context(), s, l.Topology.RouterAddress(lab.HomeGateway, story.Shelf))
	must(t, err)
	must(t, <-shown)
	onInterface(t, l, "add", vip, machine)
	must(t, l.WaitServedFrom(t.Context(), lab.Phone, vip))
}

// onInterface adds an address to the interface of a machine, or deletes it there.
func onInterface(t *testing.T, l *lab.Lab, how string, vip netip.Addr, machine string) {
	t.Helper()
	must(t, netns.IP(l.Namespace(machine), fmt.Sprintf("addr %s %s dev %s", how, lab.VIPPrefix(vip), lab.RackInterface)))
}

// showStatus gives a Service an address in its status, as kube-vip does, once there is the Service.
func showStatus(ctx context.Context, l *lab.Lab, service string, vip netip.Addr) error {
	return lab.Within(ctx, 10*time.Second, func(ctx context.Context) error {
		services := l.Kube.CoreV1().Services(metav1.NamespaceDefault)
		s, err := services.Get(ctx, service, metav1.GetOptions{})
		if err == nil {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: vip.String()}}
			_, err = services.UpdateStatus(ctx, s, metav1.UpdateOptions{})
		}
		return err
	})
}
