//go:build privileged

package kubeproxy

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/netns"
)

// TestMain runs the tests again in a network namespace of their own: the machine.
func TestMain(m *testing.M) { netns.Main(m) }

func sh(t testing.TB, line string) string {
	t.Helper()
	f := strings.Fields(line)
	out, err := exec.Command(f[0], f[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// nft has one transaction carried out, as knftables does.
func nft(t testing.TB, transaction string) {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(transaction)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s\n%.2000s", err, out, transaction)
	}
}

var (
	vip4 = netip.MustParseAddr("203.0.113.5")
	vip6 = netip.MustParseAddr("2001:db8:113::5")
)

// families are what nft and iptables call the family of each VIP.
var families = []struct {
	vip                        netip.Addr
	table, kind, iptables, pod string
}{
	{vip4, "ip", "ipv4_addr", "iptables", "10.244.1.9"},
	{vip6, "ip6", "ipv6_addr", "ip6tables", "fd00:244:1::9"},
}

// tables writes kube-proxy's table of a family as its mode nftables does, without Services.
func tables(t testing.TB, family, kind string) {
	t.Helper()
	nft(t, fmt.Sprintf(`add table %[1]s kube-proxy { comment "rules for kube-proxy"; }
add chain %[1]s kube-proxy reject-chain
add rule %[1]s kube-proxy reject-chain reject
add chain %[1]s kube-proxy external-X-prod/web/tcp/
add map %[1]s kube-proxy service-ips { type %[2]s . inet_proto . inet_service : verdict ; comment "ClusterIP, ExternalIP and LoadBalancer IP traffic" ; }
add map %[1]s kube-proxy no-endpoint-services { type %[2]s . inet_proto . inet_service : verdict ; }
`, family, kind))
	t.Cleanup(func() { sh(t, "nft delete table "+family+" kube-proxy") })
}

func serve(t testing.TB, family string, vip netip.Addr, port string) {
	t.Helper()
	nft(t, fmt.Sprintf("add element %s kube-proxy service-ips { %s . %s : goto external-X-prod/web/tcp/ }\n", family, vip, port))
}

func question(vip netip.Addr, ports string) advertise.Question {
	return advertise.Question{Service: lb.ServiceKey{Namespace: "prod", Name: "web"}, VIP: vip, Frontend: advertise.Frontend{Ports: ports}}
}

// ask asks one question within a second.
func ask(t testing.TB, p *Prober, r Round, q advertise.Question) advertise.Evidence {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return p.Ask(ctx, r, []advertise.Question{q})[0].Evidence
}

func expect(t testing.TB, when string, got, want advertise.Evidence) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", when, got, want)
	}
}
