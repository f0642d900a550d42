package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/procfs"
)

const (
	few, many = 50, 5000
	rounds    = 3  // agents of each mode and size; the median counts
	added     = 25 // Nodes that are added one by one, in each round
	settle    = 5 * time.Second
	listen    = "127.0.0.1:10268"
)

var modes = []inventory.Mode{inventory.ModeDirect, inventory.ModeFabric, inventory.ModeOverlay}

// BenchmarkAgent measures, in a cluster of 50 and then of 5,000 Nodes in racks of 40, by
// mode: the resident memory of an agent some seconds after its start ("MB"), how many
// times that of the small cluster it is in the large one ("times"), and the median time
// from the creation of a Node until the agent has its route in the kernel ("ms/node").
func BenchmarkAgent(b *testing.B) {
	s := newStand(b)
	small := map[inventory.Mode]float64{}
	for _, n := range []int{few, many} {
		s.grow(n)
		for _, mode := range modes {
			s.accept(mode, n)
			b.Run(fmt.Sprintf("%s/%d", mode, n), func(b *testing.B) {
				for b.Loop() {
					memory, took := s.measure(b, mode, n)
					b.ReportMetric(memory, "MB")
					b.ReportMetric(float64(took.Microseconds())/1000, "ms/node")
					if n == few {
						small[mode] = memory
					} else {
						b.ReportMetric(memory/small[mode], "times")
					}
				}
			})
		}
	}
}

// stand is an API server and one machine.
type stand struct {
	*apiserver.Server
	t     testing.TB
	nodes int // that there are
}

func newStand(b *testing.B) *stand {
	for _, line := range []string{
		"link set lo up", "link add up0 type veth peer name down0", "addr add 172.16.0.11/24 dev up0", "addr add 192.168.255.2/24 dev up0",
		"addr add 2001:db8::b/112 dev up0 nodad", "link set down0 up", "link set up0 up",
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			b.Fatalf("ip %s: %v\n%s", line, err, out)
		}
	}
	return &stand{Server: apiserver.Start(b, apiserver.Options{Unaudited: true, Flags: []string{"--advertise-address=172.16.0.11"}}), t: b}
}

// inventoryOf is an inventory of the first machines, its pod CIDRs carved.
func (s *stand) inventoryOf(mode inventory.Mode, n int) string {
	pods := fmt.Sprintf("  podNetwork: {mode: %s, cidrs: [10.0.0.0/8, \"fd00:244::/32\"], rackPrefix: {ipv4: 17, ipv6: 48}, nodePrefix: {ipv4: 24, ipv6: 64}}\n", mode)
	return strings.Replace(apiserver.ManyMachines(n), "  racks:\n", pods+"  racks:\n", 1)
}

// grow creates Nodes until there are n.
func (s *stand) grow(n int) {
	s.t.Helper()
	inv, problems := document.Load(document.Document{Source: "x", Data: []byte(s.inventoryOf(inventory.ModeDirect, n))})
	if inv == nil {
		s.t.Fatal(problems)
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := s.nodes + worker; i < n; i += 8 {
				m, _ := inv.Machine(apiserver.MachineName(i))
				s.create(context.Background(), m.Name, m.Rack, m.Addresses, m.PodCIDRs)
			}
		})
	}
	all.Wait()
	s.nodes = n
}

func (s *stand) create(ctx context.Context, name, rack string, addrs []netip.Addr, cidrs []netip.Prefix) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{inventory.LabelRack: rack}}}
	n.Spec.ProviderID = inventory.ProviderScheme + "://" + name
	for _, c := range cidrs {
		n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, c.String())
	}
	n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	n.Status.Conditions = []corev1.NodeCondition{apiserver.Ready(true)}
	for _, a := range addrs {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
	}
	if _, err := s.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		s.t.Error(err)
	}
}

// oneEdit is a source of one edit.
type oneEdit string

func (e oneEdit) Run(ctx context.Context, set func(source.Edit)) error {
	set(source.Edit{Documents: []document.Document{{Source: "x", Data: []byte(e)}}})
	<-ctx.Done()
	return nil
}

type silent struct{}

func (silent) Event(runtime.Object, string, string, string) {}

// accept puts an inventory into force, as the controller manager does.
func (s *stand) accept(mode inventory.Mode, n int) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), time.Minute)
	defer stop()
	k := source.NewReconciler(source.Config{
		Client: s.Client, Namespace: "kube-system", Source: oneEdit(s.inventoryOf(mode, n)), Recorder: silent{},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Metrics: source.NewMetrics(),
		Enforce: func(inv *inventory.Inventory) {
			if inv.PodNetwork.Mode == mode && inv.Size() == n {
				stop()
			}
		},
	})
	if err := k.Run(ctx); err != nil {
		s.t.Fatal(err)
	}
	if ctx.Err() != context.Canceled {
		s.t.Fatal("the inventory was not accepted")
	}
}

// measure starts some agents, one after the other, and returns the medians.
func (s *stand) measure(b *testing.B, mode inventory.Mode, n int) (memory float64, took time.Duration) {
	var memories []float64
	var all []time.Duration
	for range rounds {
		agent := s.Spawn(os.Getenv(agentVariable), "--kubeconfig="+s.Kubeconfig, "--node-name="+apiserver.MachineName(0), "--state-dir="+b.TempDir(), "--listen="+listen)
		s.ready(mode, n)
		time.Sleep(settle)
		used, err := procfs.Of(agent.Pid())
		if err != nil {
			b.Fatal(err)
		}
		memories = append(memories, used.Memory)
		all = append(all, s.add(b, mode)...)
		agent.Terminate()
	}
	slices.Sort(memories)
	slices.Sort(all)
	return memories[len(memories)/2], all[len(all)/2]
}

// ready waits until the agent holds a route to each Node that it is to know.
func (s *stand) ready(mode inventory.Mode, n int) {
	s.t.Helper()
	least := 2 * min(n, apiserver.RackSize)
	if mode == inventory.ModeOverlay {
		least = 2 * n
	}
	s.Eventually(time.Minute, "the agent is ready", func(ctx context.Context) error {
		status, text := agentStatus(ctx)
		if !status.Ready || status.Routes.Held < least || status.Routes.Held != status.Routes.Wanted {
			return fmt.Errorf("%s, want %d routes", text, least)
		}
		return nil
	})
}

type status struct {
	Ready  bool
	Routes struct{ Held, Wanted int }
}

// agentStatus asks the agent how it is; the text is its answer, or why there is none.
func agentStatus(ctx context.Context) (s status, text string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listen+"/status", nil)
	if err != nil {
		return s, err.Error()
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, err.Error()
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil {
		return s, err.Error()
	}
	return s, fmt.Sprintf("%+v", s)
}

// add creates Nodes one by one and returns how long each took to have its route. In
// overlay they are of another rack.
func (s *stand) add(b *testing.B, mode inventory.Mode) (took []time.Duration) {
	rack := 0
	if mode == inventory.ModeOverlay {
		rack = 1
	}
	routes, err := openMonitor()
	if err != nil {
		b.Fatal(err)
	}
	defer routes.close()
	for i := range added {
		cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 255, byte(i), 0}), 24)
		addr := netip.AddrFrom4([4]byte{172, 16, byte(rack), byte(200 + i)})
		begun := time.Now()
		s.create(b.Context(), extra(i), apiserver.RackOf(rack*apiserver.RackSize), []netip.Addr{addr}, []netip.Prefix{cidr})
		if err := routes.wait(cidr, time.Minute); err != nil {
			_, status := agentStatus(b.Context())
			b.Fatalf("Node %s: %v; the agent says: %s", extra(i), err, status)
		}
		took = append(took, time.Since(begun))
	}
	s.remove(b)
	return took
}

// extra is the name of a Node that add creates.
func extra(i int) string { return fmt.Sprintf("x%04d", i) }

// remove deletes what add has created and waits until the agent has no route of theirs:
// the next agent's would be no news else.
func (s *stand) remove(b *testing.B) {
	for i := range added {
		if err := s.Client.CoreV1().Nodes().Delete(b.Context(), extra(i), metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	}
	s.Eventually(time.Minute, "the routes of deleted Nodes are gone", func(ctx context.Context) error {
		left, err := exec.CommandContext(ctx, "ip", "-4", "route", "show", "table", "all", "root", "10.255.0.0/16").CombinedOutput()
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("there are\n%s", left)
		}
		return err
	})
}
