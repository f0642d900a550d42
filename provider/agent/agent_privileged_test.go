//go:build privileged

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/agent/disk"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/agent/report"
)

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
		c := plan.NodeOf(n).Condition
		counts := lb.ParseReport(c.Message).Counts.String()
		return err == nil && c.Ready == corev1.ConditionTrue && c.Reason == report.AsPlanned && counts == "routes 6/6, sessions 1/1", fmt.Sprint(c, err)
	})
	s := a.show(t)
	if !s.Ready || s.FromDisk || len(s.Sessions) != 1 || !s.Sessions[0].Up || len(s.Sessions[0].Announced) != 3 {
		t.Errorf("status %+v", s)
	}
	if written := conditionsWritten(t, client); len(written) > 2 {
		t.Errorf("the condition was written %d times: %v", len(written), written)
	}
}

// conditionsWritten are those that say another thing than the one before. A heartbeat, whose first one comes at a random time,
// says the same.
func conditionsWritten(t *testing.T, client *fake.Clientset) (all []plan.Condition) {
	t.Helper()
	for _, action := range client.Actions() {
		patch, ok := action.(clienttesting.PatchAction)
		if !ok {
			continue
		}
		var body struct{ Status corev1.NodeStatus }
		if err := json.Unmarshal(patch.GetPatch(), &body); err != nil {
			t.Fatal(err)
		}
		for _, c := range body.Status.Conditions {
			if one := (plan.Condition{Ready: c.Status, Reason: c.Reason, Message: c.Message}); len(all) == 0 || all[len(all)-1] != one {
				all = append(all, one)
			}
		}
	}
	return all
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
	file := filepath.Join(dir, disk.AliveFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var last map[string]any
	if err := json.Unmarshal(text, &last); err != nil {
		t.Fatal(err)
	}
	last["BootID"], last["Wall"] = "an earlier one", time.Now().UTC().Add(-time.Hour)
	if text, err = json.Marshal(last); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
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
	const late = "127.0.0.2:10256" // connections come from 127.0.0.1, so none takes it

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
	if s.FromDisk || !slices.ContainsFunc(s.Refusals, func(r report.RefusalStatus) bool {
		return r.VIP == "203.0.113.5" && r.Reason == string(lb.ProxyUnhealthy)
	}) {
		t.Errorf("from disk: %v, refused: %v", s.FromDisk, s.Refusals)
	}
	t.Log("kube-proxy is up")
	listener, err := net.Listen("tcp", late)
	if err != nil {
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
	second := start(t, client, siteWith(t, "maintenance"), dir, proxyURL, func(o *Options) { o.DrainTime = 8 * time.Second })
	eventually(t, "the routes bear GRACEFUL_SHUTDOWN", func() (bool, string) {
		out := ask("show route 203.0.113.5/32 all")
		return strings.Contains(out, "(65535,0)"), out
	})
	learned(t, ask)
	second.stop()
	third := start(t, client, siteWith(t, "maintenance"), dir, proxyURL, func(o *Options) { o.DrainTime = 8 * time.Second })
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
	proxyStatus.Store(http.StatusServiceUnavailable)
	learned(t, ask, pods...)
}

func TestMaintenanceIsAnnouncedAndThenWithdraws(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	a := start(t, client, siteWith(t, "active"), t.TempDir(), proxyURL, func(o *Options) { o.DrainTime = 10 * time.Second })
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
	a.sources.Accept(t.Context(), source.Followed{Inventory: siteWith(t, "maintenance")}, nil)
	eventually(t, "the routes bear GRACEFUL_SHUTDOWN", func() (bool, string) {
		out := ask("show route 203.0.113.5/32 all")
		return strings.Contains(out, "(65535,0)"), out
	})
	learned(t, ask)
	a.sources.Accept(t.Context(), source.Followed{Inventory: siteWith(t, "active")}, nil)
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
}

// waits has the agent wait for Nodes that the API server does not list.
func (a running) waits(t *testing.T, client *fake.Clientset) {
	t.Helper()
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, context.DeadlineExceeded
	})
	a.sources.Accept(t.Context(), source.Followed{Inventory: inMode(t, "overlay")}, nil)
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

func inMode(t testing.TB, mode string) *inventory.Inventory {
	t.Helper()
	text := strings.NewReplacer("STATE", "active", "mode: fabric", "mode: "+mode).Replace(site)
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(text)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestPortAndNetworkOfTheTunnelChangeLive(t *testing.T) {
	_, client, proxyURL, _ := machineWithRouter(t)
	far := aNode("w3", "10.2.0.13", "fd02::13", "10.244.3.0/24", "fd00:244:0:3::/64")
	far.Labels[inventory.LabelRack] = "r2"
	if _, err := client.CoreV1().Nodes().Create(t.Context(), far, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a := start(t, client, inMode(t, "overlay"), t.TempDir(), proxyURL, nil)
	devices := func() string { return sh(t, "ip -d link show type vxlan") + sh(t, "ip route show proto 114") }
	for _, step := range []struct{ mode, port, both string }{
		{"overlay", "dstport 4789", ""},
		{"overlay, vxlan: {port: 8472, vni: 77}", "vxlan id 77 local 10.1.0.11 srcport 0 0 dstport 8472", "dstport 4789"},
		{"overlay", "vxlan id 114 local 10.1.0.11 srcport 0 0 dstport 4789", "dstport 8472"},
	} {
		a.sources.Accept(t.Context(), source.Followed{Inventory: inMode(t, step.mode)}, nil)
		if step.both != "" {
			eventually(t, "both tunnels are there", func() (bool, string) {
				got := devices()
				return strings.Contains(got, step.port) && strings.Contains(got, step.both), got
			})
		}
		eventually(t, "the tunnel is as in "+step.mode, func() (bool, string) {
			got := devices()
			return strings.Contains(got, step.port) && strings.Count(got, "dstport") == 1 && strings.Contains(got, "10.244.3.0/24 via 10.244.3.0 dev plinth-vxlan "), got
		})
	}
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
		a.sources.Accept(t.Context(), source.Followed{Inventory: inMode(t, step.mode)}, nil)
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
