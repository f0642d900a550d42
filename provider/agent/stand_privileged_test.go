//go:build privileged

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/netns"
	"plinth.dev/plinth/provider/agent/proxy"
	"plinth.dev/plinth/provider/agent/report"
	"plinth.dev/plinth/routing/kernel"
	"plinth.dev/plinth/wait"
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

func eventually(t testing.TB, what string, ok func() (bool, string)) {
	t.Helper()
	wait.True(t, 20*time.Second, 20*time.Millisecond, what, ok)
}

// router starts BIRD in a namespace that the machine is linked to, and returns what
// asks it.
func router(t testing.TB) (ask func(string) string) {
	t.Helper()
	ask, configure, _ := routerWithout(t)
	configure("")
	return ask
}

// seen has BIRD write into its log which routes are said to go soon.
const seen = `filter seen { if (65535, 0) ~ bgp_community then print "GRACEFUL_SHUTDOWN ", net; accept; }
`

// routerWithout is the same before it has a session with the machine. Configure gives
// it one, with a further line, in place of the one that it has. Log is what it wrote.
func routerWithout(t testing.TB) (ask func(string) string, configure func(line string), log func() string) {
	t.Helper()
	ns := fmt.Sprintf("plt-agent-%d", os.Getpid())
	sh(t, "ip netns add "+ns)
	t.Cleanup(func() { sh(t, "ip netns del "+ns) })
	sh(t, "ip link add up0 type veth peer name down0 netns "+ns)
	t.Cleanup(func() { sh(t, "ip link del up0") })
	for _, line := range []string{
		"ip link set lo up", "ip addr add 10.1.0.11/24 dev up0", "ip addr add fd01::11/64 dev up0 nodad", "ip link set up0 up",
		"ip -n " + ns + " link set lo up", "ip -n " + ns + " addr add 10.1.0.1/24 dev down0",
		"ip -n " + ns + " addr add fd01::1/64 dev down0 nodad", "ip -n " + ns + " link set down0 up",
	} {
		sh(t, line)
	}
	dir := t.TempDir()
	conf, ctl := filepath.Join(dir, "bird.conf"), filepath.Join(dir, "bird.ctl")
	logFile := filepath.Join(dir, "bird.log")
	write := func(session string) {
		if err := os.WriteFile(conf, []byte("log \""+logFile+"\" all;\nrouter id 10.1.0.1;\nprotocol device {}\n"+seen+session), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	bird := exec.Command("ip", "netns", "exec", ns, "bird", "-f", "-c", conf, "-s", ctl, "-P", filepath.Join(dir, "bird.pid"))
	if err := bird.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bird.Process.Kill(); _ = bird.Wait() })
	ask = func(q string) string {
		out, _ := exec.Command("birdc", "-s", ctl, q).CombinedOutput()
		return string(out)
	}
	log = func() string {
		b, _ := os.ReadFile(logFile)
		return string(b)
	}
	return ask, func(line string) {
		write(`protocol bgp w1 { local as 65001; neighbor 10.1.0.11 as 65010; passive on; hold time 9; graceful restart on; error wait time 1, 2; ` + line + `
  ipv4 { import filter seen; export none; }; ipv6 { import filter seen; export none; }; }
`)
		eventually(t, "the router takes its configuration", func() (bool, string) {
			out := ask("configure")
			return strings.Contains(out, "econfigur"), out
		})
	}, log
}

// never watches for three seconds that a condition does not come true.
func never(t testing.TB, what string, bad func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if is, seen := bad(); is {
			t.Fatalf("%s:\n%s", what, seen)
		}
	}
}

const site = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: 65010, holdTime: 9s}
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16, "fd00:244::/48"]}
  routers: [{name: tor, address: 10.1.0.1, asn: 65001}]
  pools: [{name: public, addresses: [203.0.113.0/25]}]
  racks:
    - name: r1
      subnets: [10.1.0.0/24, "fd01::/64"]
      machines:
        - {name: w1, addresses: [10.1.0.11, "fd01::11"], state: STATE}
        - {name: w2, addresses: [10.1.0.12, "fd01::12"]}
`

func siteWith(t testing.TB, state string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(strings.Replace(site, "STATE", state, 1))})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

func aNode(name, addr4, addr6, cidr4, cidr6 string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{inventory.LabelRack: "r1"}},
		Spec:       corev1.NodeSpec{ProviderID: "plinth://" + name, PodCIDR: cidr4, PodCIDRs: []string{cidr4, cidr6}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: addr4}, {Type: corev1.NodeInternalIP, Address: addr6},
		}},
	}
}

func aService(name, vip string) []runtime.Object {
	return []runtime.Object{
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: "uid-1"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "prod", Name: name + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.2.9"}}},
		},
		aClaim(vip, "prod", name, "uid-1"),
	}
}

func aClaim(vip, namespace, name, uid string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: vip, Labels: map[string]string{networkingv1.LabelManagedBy: lb.ManagedBy}, Annotations: map[string]string{lb.ServiceUIDAnnotation: uid}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name}},
	}
}

// run is one agent at work.
type running struct {
	*Agent
	stop func()
}

// patience is what agents of these tests have with what comes up after a boot.
var patience = time.Hour

// bound is how long agents of these tests wait for kube-proxy's rules.
var bound = proxy.RulesBound

// start starts an agent on the machine; the inventory is told directly.
func start(t testing.TB, client *fake.Clientset, inv *inventory.Inventory, dir, proxyURL string, change func(*Options)) running {
	t.Helper()
	o := Options{
		NodeName: "w1", Namespace: "kube-system", StateDir: dir, ProxyURL: proxyURL, DrainTime: 500 * time.Millisecond, Client: client,
		Speaker: bgp.NewSpeaker(bgp.Options{}), Table: kernel.NewTable(kernel.Options{Protocol: kernel.DefaultProtocol, Metric: kernel.DefaultMetric}),
	}
	if change != nil {
		change(&o)
	}
	a := New(o)
	a.grace.boot = patience
	a.kubeProxy.gate.Within(bound)
	a.sources.Transition.Pause, a.sources.Timing.Secret = 100*time.Millisecond, 300*time.Millisecond
	a.sources.FollowInventory = func(ctx context.Context, _ string, set func(source.Followed, error)) error {
		if inv != nil {
			set(source.Followed{Inventory: inv}, nil)
		}
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var once atomic.Bool
	stop := func() {
		if !once.Swap(true) {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return running{a, stop}
}

func (a running) show(t testing.TB) report.Status {
	t.Helper()
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
	var s report.Status
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// learned waits until the router holds exactly these prefixes.
func learned(t testing.TB, ask func(string) string, want ...string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	eventually(t, fmt.Sprintf("the router holds %v", want), func() (bool, string) {
		var got []string
		out := ask("show route")
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 1 && strings.Contains(f[0], "/") {
				got = append(got, f[0])
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want), out
	})
}

func machineWithRouter(t testing.TB) (ask func(string) string, client *fake.Clientset, proxyURL string, proxyStatus *atomic.Int32) {
	ask = router(t)
	proxyStatus = &atomic.Int32{}
	proxyStatus.Store(http.StatusOK)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(proxyStatus.Load())) }))
	t.Cleanup(srv.Close)
	objs := append(aService("web", "203.0.113.5"),
		aNode("w1", "10.1.0.11", "fd01::11", "10.244.1.0/24", "fd00:244:0:1::/64"),
		aNode("w2", "10.1.0.12", "fd01::12", "10.244.2.0/24", "fd00:244:0:2::/64"))
	return ask, fake.NewClientset(objs...), srv.URL, proxyStatus
}
