//go:build privileged

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/routing/kernel"
)

// TestMain runs the tests again in a network namespace of their own: the machine.
func TestMain(m *testing.M) {
	const inside = "PLINTH_TEST_NETNS"
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "in a network namespace:", err)
		os.Exit(1)
	}
}

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
	var last string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		var good bool
		if good, last = ok(); good {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("not within 20 s: %s; last seen:\n%s", what, last)
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
	inv, problems := inventory.Load(inventory.Document{Source: "site.yaml", Data: []byte(strings.Replace(site, "STATE", state, 1))})
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
		ObjectMeta: metav1.ObjectMeta{Name: vip, Labels: map[string]string{ManagedByLabel: ManagedBy}, Annotations: map[string]string{ServiceUIDAnnotation: uid}},
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
	a.patience = patience
	a.sources.shift.pause, a.sources.patience = 100*time.Millisecond, 300*time.Millisecond
	a.sources.follow = func(ctx context.Context, _ string, set func(*inventory.Inventory)) error {
		if inv != nil {
			set(inv)
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

func (a running) show(t testing.TB) Status {
	t.Helper()
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
	var s Status
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

func TestMachineAnnouncesRoutesAndAcknowledges(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	a := start(t, client, siteWith(t, "active"), t.TempDir(), proxyURL, nil)
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
	for _, want := range []string{"10.244.0.0/16 via 10.1.0.1 dev up0", "10.244.2.0/24 via 10.1.0.12 dev up0", "unreachable 10.244.1.0/24"} {
		if got := sh(t, "ip route show proto 114"); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	eventually(t, "the condition is True", func() (bool, string) {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		c := reduceNode(n).Condition
		return err == nil && c == condition{corev1.ConditionTrue, "routes 6/6, sessions 1/1"}, fmt.Sprint(c, err)
	})
	s := a.show(t)
	if !s.Ready || s.FromDisk || len(s.Sessions) != 1 || !s.Sessions[0].Up || len(s.Sessions[0].Announced) != 3 {
		t.Errorf("status %+v", s)
	}
	writes := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "patch" {
			writes++
		}
	}
	if writes > 2 {
		t.Errorf("the condition was written %d times", writes)
	}
}

func TestWhatNoClaimHoldsIsNotAnnounced(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	start(t, client, siteWith(t, "active"), t.TempDir(), proxyURL, nil)
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
	svc, _ := client.CoreV1().Services("prod").Get(t.Context(), "web", metav1.GetOptions{})
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}, {IP: "10.1.0.1"}}
	if _, err := client.CoreV1().Services("prod").UpdateStatus(t.Context(), svc, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	hostile := []*networkingv1.IPAddress{
		aClaim("10.1.0.1", "prod", "web", "uid-1"),        // outside of every pool
		aClaim("203.0.113.6", "prod", "web", "uid-older"), // of an earlier Service of that name
		aClaim("203.0.113.7", "prod", "gone", "uid-1"),    // of no Service
	}
	for _, c := range append(hostile, aClaim("203.0.113.8", "prod", "web", "uid-1")) {
		if _, err := client.NetworkingV1().IPAddresses().Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "203.0.113.8/32", "fd00:244:0:1::/64")
}

func TestAgentResumesFromDiskWhileTheAPIServerIsAway(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	dir := t.TempDir()
	first := start(t, client, siteWith(t, "active"), dir, proxyURL, nil)
	want := []string{"10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64"}
	learned(t, ask, want...)
	first.stop()
	if got := sh(t, "ip route show proto 114"); !strings.Contains(got, "10.244.2.0/24 via 10.1.0.12") {
		t.Errorf("routes went with the agent:\n%s", got)
	}
	absent := fake.NewClientset()
	away := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	}
	absent.PrependReactor("*", "*", away)
	second := start(t, absent, nil, dir, proxyURL, nil)
	eventually(t, "the session is up again", func() (bool, string) {
		s := second.show(t)
		return len(s.Sessions) == 1 && s.Sessions[0].Up && s.FromDisk, fmt.Sprintf("%+v", s)
	})
	learned(t, ask, want...)
	if metrics := second.get("/metrics"); !strings.Contains(metrics, "plinth_agent_from_disk 1") {
		t.Errorf("the metrics do not say that the plan is from disk:\n%s", metrics)
	}
	before := second.show(t).Staleness
	eventually(t, "the API server is silent about every kind for longer", func() (bool, string) {
		now := second.show(t).Staleness
		for _, kind := range []string{"node", "services", "ipaddresses", "endpointslices", "configmaps"} {
			if before[kind] == 0 || now[kind] < before[kind]+0.5 {
				return false, fmt.Sprint(before, now)
			}
		}
		return true, ""
	})
}

// reboots has what is in a state directory be of an earlier boot of the machine.
func reboots(t *testing.T, dir string) {
	t.Helper()
	d, err := openDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	last := d.sign()
	last.BootID, last.Wall = "an earlier one", last.Wall.Add(-time.Hour)
	if err := d.write(aliveFile, last); err != nil {
		t.Fatal(err)
	}
}

func TestAMachineThatHasBootedAsksBeforeItAnnounces(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	dir := t.TempDir()
	want := []string{"10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64"}
	before := start(t, client, siteWith(t, "active"), dir, proxyURL, nil)
	learned(t, ask, want...)
	before.stop()
	sh(t, "ip route flush proto 114")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	late := listener.Addr().String()
	_ = listener.Close()

	t.Log("neither the API server nor kube-proxy is up")
	reboots(t, dir)
	var up atomic.Bool
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !up.Load(), nil, errors.New("connection refused")
	})
	booted := start(t, client, siteWith(t, "active"), dir, "http://"+late, nil)
	eventually(t, "the agent waits for the API server", func() (bool, string) {
		s := booted.show(t)
		return s.WaitingFor == "this machine's Node" && len(s.Sessions) == 0, fmt.Sprintf("%+v", s)
	})
	t.Log("the API server is up")
	up.Store(true)
	learned(t, ask, "10.244.1.0/24", "fd00:244:0:1::/64")
	s := booted.show(t)
	if s.FromDisk || !slices.ContainsFunc(s.Refusals, func(r RefusalStatus) bool {
		return r.VIP == "203.0.113.5" && r.Reason == string(lb.ProxyUnhealthy)
	}) {
		t.Errorf("from disk: %v, refused: %v", s.FromDisk, s.Refusals)
	}
	t.Log("kube-proxy is up")
	if listener, err = net.Listen("tcp", late); err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = srv.Serve(listener) }()
	learned(t, ask, want...)
	booted.stop()
	_ = srv.Close()

	t.Log("neither ever comes up")
	reboots(t, dir)
	up.Store(false)
	patience = 500 * time.Millisecond
	defer func() { patience = time.Hour }()
	alone := start(t, client, nil, dir, "http://"+late, nil)
	eventually(t, "the agent goes by its disk", func() (bool, string) {
		s := alone.show(t)
		return s.FromDisk && len(s.Sessions) == 1 && s.Sessions[0].Up, fmt.Sprintf("%+v", s)
	})
	learned(t, ask, want...)
}

func TestMaintenanceThatBeginsWhileTheAgentRestartsIsAnnounced(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	dir := t.TempDir()
	first := start(t, client, siteWith(t, "active"), dir, proxyURL, nil)
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
	first.stop()
	second := start(t, client, siteWith(t, "maintenance"), dir, proxyURL, func(o *Options) { o.DrainTime = 3 * time.Second })
	eventually(t, "the routes bear GRACEFUL_SHUTDOWN", func() (bool, string) {
		out := ask("show route 203.0.113.5/32 all")
		return strings.Contains(out, "(65535,0)"), out
	})
	learned(t, ask)
	second.stop()
	third := start(t, client, siteWith(t, "maintenance"), dir, proxyURL, func(o *Options) { o.DrainTime = 3 * time.Second })
	eventually(t, "the next agent has a plan", func() (bool, string) {
		s := third.show(t)
		return s.Ready, s.WaitingFor
	})
	if s := third.show(t); s.Draining || !s.Withdrawn {
		t.Errorf("a machine that was drained is drained again: draining %v, withdrawn %v", s.Draining, s.Withdrawn)
	}
}

func TestVIPsAreWithdrawnWhileKubeProxyIsUnhealthy(t *testing.T) {
	ask, _, proxyURL, proxyStatus := machineWithRouter(t)
	proxyStatus.Store(http.StatusServiceUnavailable)
	start(t, fake.NewClientset(dualService()...), dual(t), t.TempDir(), proxyURL, nil)
	pods := []string{"10.244.1.0/24", "fd00:244:0:1::/64"}
	learned(t, ask, pods...)
	proxyStatus.Store(http.StatusOK)
	learned(t, ask, dualRoutes...)
	sick := time.Now()
	proxyStatus.Store(http.StatusServiceUnavailable)
	learned(t, ask, pods...)
	if took := time.Since(sick); took > 10*time.Second {
		t.Errorf("VIPs of a machine whose kube-proxy is unhealthy were withdrawn after %v", took)
	}
}

func TestMaintenanceIsAnnouncedAndThenWithdraws(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	a := start(t, client, siteWith(t, "active"), t.TempDir(), proxyURL, func(o *Options) { o.DrainTime = 2 * time.Second })
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
	a.sources.accept(t.Context(), siteWith(t, "maintenance"))
	eventually(t, "the routes bear GRACEFUL_SHUTDOWN", func() (bool, string) {
		out := ask("show route 203.0.113.5/32 all")
		return strings.Contains(out, "(65535,0)"), out
	})
	learned(t, ask)
	a.sources.accept(t.Context(), siteWith(t, "active"))
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
}

// waits has the agent wait for Nodes that the API server does not list.
func (a running) waits(t *testing.T, client *fake.Clientset) {
	t.Helper()
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, context.DeadlineExceeded
	})
	a.sources.accept(t.Context(), inMode(t, "overlay"))
	eventually(t, "the agent waits for the Nodes of the overlay", func() (bool, string) {
		s := a.show(t)
		return s.WaitingFor == "the nodes" && strings.Contains(a.get("/metrics"), "plinth_agent_waiting 1"), s.WaitingFor
	})
}

func TestAgentThatWaitsRepairsRoutesFollowsKubeProxyAndDrains(t *testing.T) {
	ask, client, proxyURL, proxyStatus := machineWithRouter(t)
	a := start(t, client, siteWith(t, "active"), t.TempDir(), proxyURL, func(o *Options) { o.WithdrawOnStop = true })
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
	before := sh(t, "ip route show proto 114")
	a.waits(t, client)

	sh(t, "ip route flush proto 114")
	eventually(t, "the routes are back", func() (bool, string) {
		got := sh(t, "ip route show proto 114")
		return got == before, got
	})
	proxyStatus.Store(http.StatusServiceUnavailable)
	learned(t, ask, "10.244.1.0/24", "fd00:244:0:1::/64")
	a.stop() // it would never return
	learned(t, ask)
}

func TestRouteThatAForeignHandDeletesIsBackWithinASecond(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	start(t, client, siteWith(t, "active"), t.TempDir(), proxyURL, nil)
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
	before := sh(t, "ip route show proto 114")
	sh(t, "ip route flush proto 114")
	flushed := time.Now()
	eventually(t, "the routes are back", func() (bool, string) {
		got := sh(t, "ip route show proto 114")
		return got == before, got
	})
	if took := time.Since(flushed); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

func inMode(t testing.TB, mode string) *inventory.Inventory {
	t.Helper()
	text := strings.NewReplacer("STATE", "active", "mode: fabric", "mode: "+mode).Replace(site)
	inv, problems := inventory.Load(inventory.Document{Source: "site.yaml", Data: []byte(text)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestModeOfThePodNetworkChangesLive(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	far := aNode("w3", "10.2.0.13", "fd02::13", "10.244.3.0/24", "fd00:244:0:3::/64")
	far.Labels[inventory.LabelRack] = "r2"
	if _, err := client.CoreV1().Nodes().Create(t.Context(), far, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a := start(t, client, inMode(t, "fabric"), t.TempDir(), proxyURL, nil)
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
	for _, step := range []struct {
		mode        string
		has, lacks  []string
		tunnelStays bool
	}{
		{"overlay", []string{"10.244.3.0/24 via 10.244.3.0 dev plinth-vxlan", "unreachable 10.244.0.0/16", "10.244.2.0/24 via 10.1.0.12"}, []string{"10.244.0.0/16 via"}, true},
		{"direct", []string{"10.244.2.0/24 via 10.1.0.12", "unreachable 10.244.1.0/24"}, []string{"10.244.3.0/24", "10.244.0.0/16"}, false},
		{"overlay", []string{"10.244.3.0/24 via 10.244.3.0 dev plinth-vxlan"}, nil, true},
		{"fabric", []string{"10.244.0.0/16 via 10.1.0.1", "10.244.2.0/24 via 10.1.0.12"}, []string{"unreachable 10.244.0.0/16"}, false},
	} {
		a.sources.accept(t.Context(), inMode(t, step.mode))
		eventually(t, "the routes of "+step.mode, func() (bool, string) {
			got := sh(t, "ip route show proto 114") + sh(t, "ip link")
			ok := strings.Contains(got, "plinth-vxlan") == step.tunnelStays
			for _, x := range step.has {
				ok = ok && strings.Contains(got, x)
			}
			for _, x := range step.lacks {
				ok = ok && !strings.Contains(got, x)
			}
			return ok, got
		})
		for _, st := range a.o.Speaker.State(t.Context()) {
			if !st.Up || st.Losses > 0 {
				t.Errorf("%s took a session down: %v, lost %d times", step.mode, st, st.Losses)
			}
		}
	}
}
