//go:build privileged

package agent

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/agent/report"
)

// kubeProxySays is how kube-proxy answers at /healthz.
const kubeProxySays = `{"lastUpdated":"2026-01-01T00:00:00Z","currentTime":"2026-01-01T00:00:00Z","nodeEligible":true}`

// gatedSite is a machine with a router, kube-proxy's word, and a Service that it may have
// rules for.
func gatedSite(t *testing.T) (ask func(string) string, client *fake.Clientset, proxyURL string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(kubeProxySays)) }))
	t.Cleanup(srv.Close)
	return router(t), fake.NewClientset(append(servedAt("web", "203.0.113.5"),
		aNode("w1", "10.1.0.11", "fd01::11", "10.244.1.0/24", "fd00:244:0:1::/64"))...), srv.URL
}

// servedAt is a Service with a port, an endpoint elsewhere, and its VIP.
func servedAt(name, vip string) []runtime.Object {
	all := aService(name, vip)
	all[0].(*corev1.Service).Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}
	all[0].(*corev1.Service).Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: vip}}
	return all
}

// nft has one transaction carried out.
func nft(t testing.TB, transaction string) {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(transaction)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
}

const emptyTable = `table ip kube-proxy {
	chain external-X { }
	map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
}
`

// kubeProxysTable is what a sync of kube-proxy's leaves, for no Service.
func kubeProxysTable(t testing.TB) {
	t.Helper()
	nft(t, emptyTable)
	t.Cleanup(func() { sh(t, "nft delete table ip kube-proxy") })
}

func rulesFor(t *testing.T, vip string) {
	nft(t, fmt.Sprintf("add element ip kube-proxy service-ips { %s . tcp . 80 : goto external-X }\n", vip))
}

var podCIDRsOfW1 = []string{"10.244.1.0/24", "fd00:244:0:1::/64"}

func (a running) pending(t *testing.T, vip string) bool {
	return slices.ContainsFunc(a.show(t).Refusals, func(r report.RefusalStatus) bool {
		return r.VIP == vip && r.Reason == string(lb.ProxyRulesPending)
	})
}

// TestAVIPIsAnnouncedWhenKubeProxyHasItsRules from kube-proxy's first sync on, and by the
// next agent without a question.
func TestAVIPIsAnnouncedWhenKubeProxyHasItsRules(t *testing.T) {
	ask, client, proxyURL := gatedSite(t)
	dir := t.TempDir()
	a := start(t, client, siteWith(t, "active"), dir, proxyURL, nil)
	learned(t, ask, podCIDRsOfW1...)
	eventually(t, "/status says what it waits for", func() (bool, string) { return a.pending(t, "203.0.113.5"), fmt.Sprint(a.show(t).Refusals) })
	never(t, "the VIP is announced before kube-proxy's first sync", func() (bool, string) { out := ask("show route"); return strings.Contains(out, "203.0.113.5"), out })
	kubeProxysTable(t)
	never(t, "the VIP is announced without rules", func() (bool, string) { out := ask("show route"); return strings.Contains(out, "203.0.113.5"), out })
	rulesFor(t, "203.0.113.5")
	learned(t, ask, append(podCIDRsOfW1, "203.0.113.5/32")...)

	a.stop()
	a = start(t, client, siteWith(t, "active"), dir, proxyURL, nil)
	eventually(t, "the next agent has its session", func() (bool, string) {
		s := a.show(t)
		return s.Ready && len(s.Sessions) == 1 && s.Sessions[0].Up, fmt.Sprint(s.Sessions)
	})
	never(t, "the next agent does not announce the VIP", func() (bool, string) {
		out := ask("show route")
		return !strings.Contains(out, "203.0.113.5"), out
	})
}

// TestAVIPWhoseRulesAreGoneIsWithdrawnUntilTheyAreBack: its Service has an endpoint elsewhere.
func TestAVIPWhoseRulesAreGoneIsWithdrawnUntilTheyAreBack(t *testing.T) {
	ask, client, proxyURL := gatedSite(t)
	kubeProxysTable(t)
	rulesFor(t, "203.0.113.5")
	dir := t.TempDir()
	a := start(t, client, siteWith(t, "active"), dir, proxyURL, nil)
	all := append(podCIDRsOfW1, "203.0.113.5/32")
	learned(t, ask, all...)
	never(t, "it is withdrawn though its rules are there", func() (bool, string) { // meanwhile they are seen again
		out := ask("show route")
		return !strings.Contains(out, "203.0.113.5"), out
	})
	sh(t, "nft flush map ip kube-proxy service-ips")
	learned(t, ask, podCIDRsOfW1...)
	said := func(what string) {
		eventually(t, what+" says that the rules are gone", func() (bool, string) {
			n, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			message := plan.NodeOf(n).Condition.Message
			refused := slices.ContainsFunc(a.show(t).Refusals, func(r report.RefusalStatus) bool {
				return r.VIP == "203.0.113.5" && r.Reason == string(lb.ProxyRulesLost)
			})
			return refused && strings.Contains(message, lb.RulesLost{Gone: 1, Of: 1}.String()) && strings.Contains(a.get("/metrics"), "plinth_agent_proxy_rules_lost 1"), message
		})
	}
	said("everything")
	rulesFor(t, "203.0.113.5")
	learned(t, ask, all...)
	if s := a.show(t); len(s.Overdue) > 0 || strings.Contains(a.get("/metrics"), "plinth_agent_proxy_rules_lost 1") {
		t.Errorf("it is said on: %v", s.Overdue)
	}

	anew := func() {
		nft(t, emptyTable)
		rulesFor(t, "203.0.113.5")
		learned(t, ask, all...)
	}
	sh(t, "nft delete table ip kube-proxy") // with all that was in it
	learned(t, ask, podCIDRsOfW1...)
	a.stop()
	a = start(t, client, siteWith(t, "active"), dir, proxyURL, nil)
	learned(t, ask, podCIDRsOfW1...)
	anew()

	a.stop() // and while no agent runs
	sh(t, "nft delete table ip kube-proxy")
	start(t, client, siteWith(t, "active"), dir, proxyURL, nil)
	learned(t, ask, podCIDRsOfW1...)
	anew()
}

// TestAnAgentThatBeginsOnAnIdleClusterAnnouncesWhatKubeProxyHasLongKnown: nothing changes
// that could be evidence.
func TestAnAgentThatBeginsOnAnIdleClusterAnnouncesWhatKubeProxyHasLongKnown(t *testing.T) {
	ask, client, proxyURL := gatedSite(t)
	kubeProxysTable(t)
	rulesFor(t, "203.0.113.5")
	start(t, client, siteWith(t, "active"), t.TempDir(), proxyURL, nil)
	learned(t, ask, append(podCIDRsOfW1, "203.0.113.5/32")...)
}

// TestAVIPWhoseRulesNeverComeIsAnnouncedAfterTheBoundAndNamed until they do come.
func TestAVIPWhoseRulesNeverComeIsAnnouncedAfterTheBoundAndNamed(t *testing.T) {
	was := bound
	bound = 5 * time.Second
	t.Cleanup(func() { bound = was })
	ask, client, proxyURL := gatedSite(t)
	kubeProxysTable(t)
	a := start(t, client, siteWith(t, "active"), t.TempDir(), proxyURL, nil)
	eventually(t, "it is pending", func() (bool, string) { return a.pending(t, "203.0.113.5"), fmt.Sprint(a.show(t).Refusals) })
	learned(t, ask, append(podCIDRsOfW1, "203.0.113.5/32")...)
	// A router may have learned of it before the pass that announced it has ended.
	eventually(t, "/status says what is overdue", func() (bool, string) {
		got := fmt.Sprint(a.show(t).Overdue)
		return strings.Contains(got, "203.0.113.5") && strings.Contains(got, string(lb.ProxyRulesOverdue)), got
	})
	eventually(t, "the metrics say that it is overdue", func() (bool, string) {
		got := a.get("/metrics")
		return strings.Contains(got, "plinth_agent_proxy_rules_overdue 1") && strings.Contains(got, `plinth_agent_proxy_rules_wait_seconds_count{evidence="overdue"} 1`), got
	})
	rulesFor(t, "203.0.113.5")
	eventually(t, "its rules were seen at last", func() (bool, string) { s := a.show(t).Overdue; return len(s) == 0, fmt.Sprint(s) })
}

// TestTheFirstAgentOfAMachineGivesKubeProxyTimeToComeUp: both begin together where a machine
// joins. Where another program does kube-proxy's work nothing is waited for.
func TestTheFirstAgentOfAMachineGivesKubeProxyTimeToComeUp(t *testing.T) {
	const late = "127.0.0.2:10256" // connections come from 127.0.0.1, so none takes it
	ask, client, _ := gatedSite(t)
	sh(t, "ip link set lo up")
	a := start(t, client, siteWith(t, "active"), t.TempDir(), "http://"+late, nil)
	learned(t, ask, podCIDRsOfW1...)
	never(t, "the VIP is announced before kube-proxy has come up", func() (bool, string) { out := ask("show route"); return strings.Contains(out, "203.0.113.5"), out })
	listener, err := net.Listen("tcp", late)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(kubeProxySays)) })}
	go func() { _ = srv.Serve(listener) }()
	t.Cleanup(func() { _ = srv.Close() })
	eventually(t, "it waits for the rules", func() (bool, string) { return a.pending(t, "203.0.113.5"), fmt.Sprint(a.show(t).Refusals) })
	kubeProxysTable(t)
	rulesFor(t, "203.0.113.5")
	learned(t, ask, append(podCIDRsOfW1, "203.0.113.5/32")...)
	a.stop()
	_ = srv.Close()

	sh(t, "ip link add cilium_host type bridge")
	t.Cleanup(func() { sh(t, "ip link del cilium_host") })
	sh(t, "nft delete table ip kube-proxy")
	t.Cleanup(func() { nft(t, "add table ip kube-proxy\n") }) // which is deleted in the end
	start(t, client, siteWith(t, "active"), t.TempDir(), "http://"+late, nil)
	eventually(t, "the VIP is announced at once", func() (bool, string) {
		out := ask("show route")
		return strings.Contains(out, "203.0.113.5"), out
	})
}
