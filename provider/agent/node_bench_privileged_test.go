//go:build privileged

package agent

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/routing/kernel"
)

// neighbour is one of many Nodes on the machine's subnet.
func neighbour(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%05d", i), Labels: map[string]string{inventory.LabelRack: "r1"}}}
	four := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
	n.Spec.PodCIDRs = []string{four.String(), netip.MustParsePrefix(fmt.Sprintf("fd00:244:%x:%x::/64", i>>8, i&0xff)).String()}
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("172.16.%d.%d", i>>8, i&0xff)},
		{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("fd01::%x", i)},
	}
	return n
}

// BenchmarkNodeAddedAmong5000 is the time from the event that tells of a Node until the
// kernel says that it has the route of the second family: the median over Nodes that are
// added one by one to five thousand of one subnet, in mode direct.
func BenchmarkNodeAddedAmong5000(b *testing.B) {
	sh(b, "ip link add up0 type veth peer name down0")
	b.Cleanup(func() { sh(b, "ip link del up0") })
	for _, line := range []string{
		"ip link set lo up", "ip addr add 172.16.0.1/12 dev up0", "ip addr add fd01::1/64 dev up0 nodad", "ip link set down0 up", "ip link set up0 up",
	} {
		sh(b, line)
	}
	text := strings.NewReplacer("fabric", "direct", "10.244.0.0/16", "10.0.0.0/8", "fd00:244::/48", "fd00:244::/32", "10.1.0.11", "172.16.0.1", "10.1.0.0/24", "172.16.0.0/12",
		"fd01::11", "fd01::1", "10.1.0.12", "172.16.0.2", "fd01::12", "fd01::2", "STATE", "active", "10.1.0.1,", "172.31.255.1,").Replace(site)
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(text)})
	if err := problems.Err(); err != nil {
		b.Fatal(err)
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	b.Cleanup(proxy.Close)
	self := neighbour(1)
	self.Name = "w1"
	a := start(b, fake.NewClientset(self), inv, b.TempDir(), proxy.URL, nil)
	eventually(b, "the agent is ready", func() (bool, string) { s := a.show(b); return s.Ready, s.WaitingFor })
	var all []any
	for i := range 5000 {
		all = append(all, neighbour(i+2))
	}
	nodes := a.sources.NodeStore()
	if err := nodes.Replace(append(all, self), ""); err != nil {
		b.Fatal(err)
	}
	eventually(b, "all routes are there", func() (bool, string) { s := a.show(b); return s.Routes.Held > 10_000, fmt.Sprint(s.Routes.Held) })

	updates, done := make(chan netlink.RouteUpdate, 1024), make(chan struct{})
	if err := netlink.RouteSubscribe(updates, done); err != nil {
		b.Fatal(err)
	}
	defer close(done)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		n := neighbour(6000 + i)
		begun := time.Now()
		if err := nodes.Add(n); err != nil {
			b.Fatal(err)
		}
		for last := false; !last; {
			u := <-updates
			last = u.Type == unix.RTM_NEWROUTE && u.Protocol == kernel.DefaultProtocol && u.Dst.String() == n.Spec.PodCIDRs[1]
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/node")
}
