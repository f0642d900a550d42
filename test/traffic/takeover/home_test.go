package takeover

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// homeWithoutPlinth is withoutPlinth at home, where the gateway answers as a pod does.
func homeWithoutPlinth(t *testing.T) *lab.Lab {
	t.Helper()
	l := withoutPlinth(t, lab.Home(3))
	gateway, err := l.ServeOutside(lab.HomeGateway)
	must(t, err)
	t.Cleanup(func() { _ = gateway.Close() })
	return l
}

// withoutPlinth is a lab whose Nodes are initialised, with Plinth's rights, none of its programs, and no inventory in force.
func withoutPlinth(t *testing.T, topology lab.Topology) *lab.Lab {
	t.Helper()
	topology.StaticPods = true // MetalLB announces nothing from a Node that has no pod routes
	l := story.Lab(t, "takeover", topology)
	must(t, l.StartPlinth(t.Context(), lab.Inventory(topology)))
	must(t, l.StopCCM(t.Context(), syscall.SIGTERM))
	for _, m := range topology.Machines() {
		must(t, l.StopAgent(t.Context(), m.Name, syscall.SIGTERM))
	}
	_, err := l.Kubectl(t.Context(), "-n", lab.PlinthNamespace, "delete", "configmaps", "--selector", "plinth.dev/accepted")
	must(t, err)
	return l
}

// startPlinth starts its programs, and waits until they hold so many addresses.
func startPlinth(t *testing.T, l *lab.Lab, vips int) {
	t.Helper()
	must(t, l.StartCCM(t.Context()))
	for _, m := range l.Topology.Machines() {
		must(t, l.StartAgent(t.Context(), m.Name))
	}
	holds(t, l, vips)
	must(t, story.LinksUp(t.Context(), l))
}

// holds waits until Plinth holds so many addresses.
func holds(t *testing.T, l *lab.Lab, vips int) {
	t.Helper()
	must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
		held, err := l.Kube.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: "ipaddress.kubernetes.io/managed-by=plinth.dev"})
		if err == nil && len(held.Items) != vips {
			err = fmt.Errorf("%d addresses are held, want %d", len(held.Items), vips)
		}
		return err
	}))
}

// stillHave makes sure that Services still have their VIPs, whoever gives them.
func stillHave(t *testing.T, l *lab.Lab, vips map[netip.Addr]string) {
	t.Helper()
	for vip, service := range vips {
		s, err := l.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), service, metav1.GetOptions{})
		must(t, err)
		if in := s.Status.LoadBalancer.Ingress; !slices.ContainsFunc(in, func(i corev1.LoadBalancerIngress) bool { return i.IP == vip.String() }) {
			t.Errorf("%s had %s and has %v", service, vip, in)
		}
	}
}

// keeps makes sure that Services still have their VIPs, and that plinth status has nothing to say.
func keeps(t *testing.T, l *lab.Lab, vips map[netip.Addr]string) {
	t.Helper()
	stillHave(t, l, vips)
	must(t, lab.Within(t.Context(), 40*time.Second, func(ctx context.Context) error { return story.AllWell(ctx, l) }))
}

// web are the pods that Services of kinds lead to where they lead to pods.
const web = "web"

// kinds are so many Services that a function makes, of each kind in turn.
func kinds(n int, each ...func(*corev1.Service)) (all []*corev1.Service) {
	for i := range n {
		s := lab.LoadBalancer(fmt.Sprintf("left-%d", i), web)
		each[i%len(each)](s)
		all = append(all, s)
	}
	return all
}

// outside are the kinds of Services that have endpoints outside of the cluster: of either family, of both, with one client at
// one endpoint, and without node ports.
var outside = []func(*corev1.Service){
	func(s *corev1.Service) { story.IPv4Alone(s) },
	func(s *corev1.Service) { story.IPv4Alone(s).Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} },
	func(*corev1.Service) {}, // both
	oneEndpoint,
	withoutNodePorts,
}

// local has a Service lead to pods, of each machine to its own.
func local(s *corev1.Service) { story.Local(s) }

func oneEndpoint(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }

func withoutNodePorts(s *corev1.Service) {
	no := false
	story.IPv4Alone(s).Spec.AllocateLoadBalancerNodePorts = &no
}

// exposed are the VIPs of Services that a function creates, each with its first Service.
func exposed(t *testing.T, l *lab.Lab, expose func(context.Context, *corev1.Service) ([]netip.Addr, error), services ...*corev1.Service) map[netip.Addr]string {
	t.Helper()
	all := map[netip.Addr]string{}
	for _, s := range services {
		vips, err := expose(t.Context(), s)
		must(t, err)
		for _, vip := range vips {
			all[vip] = cmp.Or(all[vip], s.Name)
		}
	}
	return all
}

// exposedAtHome are the VIPs of Services, each with its first one, once all answer: Services lead to the gateway, but for those
// that lead to pods alone, of which each machine has one.
func exposedAtHome(t *testing.T, l *lab.Lab, services ...*corev1.Service) map[netip.Addr]string {
	t.Helper()
	story.Web(t, l, web, int32(len(l.Topology.Machines())))
	all := exposed(t, l, func(ctx context.Context, s *corev1.Service) ([]netip.Addr, error) {
		if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			return l.Expose(ctx, s)
		}
		return l.ExposeOutside(ctx, s, l.Topology.RouterAddress(lab.HomeGateway, story.Shelf))
	}, services...)
	for vip := range all {
		must(t, l.WaitServedFrom(t.Context(), lab.Phone, vip))
	}
	return all
}

// What a phone sends, and holds open, to all VIPs together.
const (
	packetsASecond = 1000
	connections    = 50
)

// watchHome watches, until the function that it returns is called, that nobody but their owners answers for VIPs or
// announces them, and that a phone loses no packet and no connection.
func watchHome(t *testing.T, l *lab.Lab, owners map[netip.Addr]string) (end func()) {
	t.Helper()
	asker, err := l.AskFrom(t.Context(), lab.Laptop, 50*time.Millisecond, slices.Collect(maps.Keys(owners))...)
	must(t, err)
	var machines []string
	for _, m := range l.Topology.Machines() {
		machines = append(machines, m.Name)
	}
	sniffer, err := l.Sniff(t.Context(), machines...)
	must(t, err)
	held, packets := map[netip.Addr]*lab.Held{}, map[netip.Addr]*lab.Prober{}
	for vip := range owners {
		held[vip], err = l.Hold(t.Context(), lab.Phone, net.JoinHostPort(vip.String(), "80"), (connections+len(owners)-1)/len(owners), 100*time.Millisecond)
		must(t, err)
		packets[vip], err = l.ProbeUDPFrom(t.Context(), lab.Phone, net.JoinHostPort(vip.String(), "7"), packetsASecond/len(owners))
		must(t, err)
	}
	steady(t, slices.Collect(maps.Values(packets))...)
	return func() {
		macs, err := l.MACs()
		must(t, err)
		asked, answered := 0, 0
		for _, one := range asker.Stop() {
			asked++
			for _, mac := range one.MACs() {
				answered++
				if macs[mac] != owners[one.Address] {
					t.Errorf("%s answered for %s, want %s alone", macs[mac], one.Address, owners[one.Address])
				}
			}
		}
		for _, f := range sniffer.Frames(func(f lab.Frame) bool { return f.Kind == lab.ARPAnnounced || f.Kind == lab.NAAnnounced }) {
			if owner, ours := owners[f.Address]; ours && f.Host != owner {
				t.Errorf("%s announced %s, which %s has", f.Host, f.Address, owner)
			}
		}
		sniffer.Stop()
		t.Logf("%d of %d questions for %d VIPs were answered", answered, asked, len(owners))
		var sent, lost, broken, open uint64
		for vip := range owners {
			p, h := packets[vip].Stop(), held[vip].Stop()
			sent, lost, broken, open = sent+uint64(p.Sent), lost+uint64(p.Lost), broken+uint64(h.Broken), open+uint64(h.Connections)
			t.Logf("%s: %s; %s", vip, p, h)
			if p.Sent == 0 || p.Lost > 0 || h.Answers == 0 || h.Broken > 0 {
				t.Errorf("%s: %d packets lost, %d of %d connections broken", vip, p.Lost, h.Broken, h.Connections)
			}
		}
		t.Logf("of %d packets %d were lost, of %d connections %d broke", sent, lost, open, broken)
	}
}
