package takeover

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/bench/metallb"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/kubelet"
)

// TestATakeoverFromMetalLBsBGPModeAndBackCostsNoMoreThanADrain follows docs/guides/migrate-from-metallb.md there and back,
// machine by machine. What clients lose is held against a drain of the same machines under MetalLB before: each machine bears the
// label that excludes it from load balancers for a while.
func TestATakeoverFromMetalLBsBGPModeAndBackCostsNoMoreThanADrain(t *testing.T) {
	l, speakers := announcedByMetalLB(t)
	story.Web(t, l, web, int32(len(l.Topology.Machines())))
	vips := exposed(t, l, l.Expose, kinds(50, amongPods...)...)
	story.Announced(t, l, slices.Collect(maps.Keys(vips)))
	for vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}
	drain := changing(t, l, vips, "a drain", func(machine string) {
		typed := func(line string) { must(t, shell(t, l, line)) }
		typed("kubectl label node " + machine + " " + corev1.LabelNodeExcludeBalancers + "=true")
		story.Announced(t, l, slices.Collect(maps.Keys(vips)), others(l, machine)...)
		story.PauseFor(t, 2*time.Second)
		typed("kubectl label node " + machine + " " + corev1.LabelNodeExcludeBalancers + "-")
	})

	r := newReader(t, l, overBGP, "inventory.yaml")
	r.put(workload("Deployment", "metallb-system", "controller"))
	pods := speakerPods(t, r)
	moved := watchFabric(t, l, vips)
	r.follow("1. ", map[string]func(string){
		"plinth import ": func(line string) {
			r.types(lab.ControlHost, line, "import ", "import --name "+l.Topology.Name+" ", "> inventory.yaml", "> inventory.yaml || test $? = 1") // 1: something was guessed
			r.applies(vips, false)
		},
	})
	r.follow("2. ", map[string]func(string){
		"kubectl -n metallb-system scale deployment controller ": func(line string) {
			r.types(lab.ControlHost, line)
			must(t, l.Stop(t.Context(), metallb.Controller, syscall.SIGTERM))
		},
		"kubectl apply -k ": func(string) {
			must(t, l.StartCCM(t.Context()))
			holds(t, l, len(vips))
		},
	})
	r.follow("3. ", nil)
	moved().nothing(t, "the change of controllers")
	there := changing(t, l, vips, "the takeover", func(machine string) {
		r.follow("4. ", map[string]func(string){
			"kubectl label node w1 plinth.dev/agent=yes": func(line string) {
				r.types(lab.ControlHost, line, "w1", machine)
				pods.leave(machine)
				together(t, func() error { return speakers.endOn(machine, syscall.SIGTERM) }, func() error { return l.StartAgent(t.Context(), machine) })
			},
			"kubectl get node w1 ": func(line string) { r.inSession(machine, line) },
		})
		pods.stay()
	})
	r.follow("3. ", nil)
	keeps(t, l, vips)

	back := cost{}
	r.follow("The way back", map[string]func(string){
		"kubectl label node w1 plinth.dev/agent-": func(line string) {
			back = changing(t, l, vips, "the way back", func(machine string) {
				r.types(lab.ControlHost, line, "w1", machine)
				pods.come(machine)
				together(t, func() error { return l.StopAgent(t.Context(), machine, syscall.SIGTERM) }, func() error { speakers.beginOn(machine); return nil })
				inSessions(t, l, machine) // the guide has one ask the router
			})
			moved = watchFabric(t, l, vips)
		},
		"kubectl -n plinth-system scale deployment ": func(string) { must(t, l.StopCCM(t.Context(), syscall.SIGTERM)) },
		"kubectl -n plinth-system wait pod ":         func(string) {}, // it has ended
		"kubectl -n metallb-system scale deployment controller ": func(line string) {
			r.types(lab.ControlHost, line)
			speakers.control()
		},
	})
	story.PauseFor(t, time.Minute+10*time.Second) // longer than routers keep what an agent announced; and MetalLB's controller looks at every Service
	moved().nothing(t, "the change of controllers, back")
	r.follow("3. ", nil)
	stillHave(t, l, vips)
	story.Announced(t, l, slices.Collect(maps.Keys(vips)))
	nothingLeft(t, l)
	for name, c := range map[string]cost{"the takeover": there, "the way back": back} {
		c.noMoreThan(t, name, drain)
	}
}

// amongPods are the kinds of Services whose endpoints are pods. All are of IPv4: MetalLB announces no IPv6 in its native mode.
var amongPods = []func(*corev1.Service){
	func(s *corev1.Service) { story.IPv4Alone(s) },
	func(s *corev1.Service) { oneEndpoint(story.IPv4Alone(s)) },
	withoutNodePorts,
	func(s *corev1.Service) { story.Local(story.IPv4Alone(s)) },
	func(s *corev1.Service) { sharing(s, "203.0.113.%d", 100, 6, lab.WebPort, 7) },
	func(s *corev1.Service) { sharing(s, "203.0.113.%d", 100, 6, 8080, 8007) },
}

// sharing has a Service share its VIP, with ports of its own, with the one other Service of the same round of so many kinds. The
// VIPs begin at one.
func sharing(s *corev1.Service, vip string, first, kinds int, ports ...int32) {
	var number int
	if _, err := fmt.Sscanf(s.Name, "left-%d", &number); err != nil {
		panic(err) // kinds names it so
	}
	story.IPv4Alone(s).Annotations = map[string]string{
		"metallb.io/allow-shared-ip": "pair",
		"metallb.io/loadBalancerIPs": fmt.Sprintf(vip, first+number/kinds),
	}
	for i, port := range ports {
		s.Spec.Ports[i].Port = port
	}
}

// announcedByMetalLB is a rack behind two routers without Plinth, where MetalLB's controller and speakers run.
func announcedByMetalLB(t *testing.T) (*lab.Lab, *instances) {
	t.Helper()
	topology := lab.TwoRouters()
	topology.Racks[0].Machines = append(topology.Racks[0].Machines, lab.Machine{Name: "m3"})
	l := withoutPlinth(t, topology)
	c := metallb.Config{ASN: lab.MachineASN, HoldTime: 3 * time.Second, Pools: []string{lab.PublicPool4.String()}}
	for _, r := range l.Topology.Routers {
		c.Peers = append(c.Peers, metallb.Peer{Name: r.Name, Address: l.Topology.RouterAddress(r.Name, l.Topology.Racks[0].Name).V4, ASN: r.ASN})
	}
	for _, m := range l.Topology.Machines() {
		c.Nodes = append(c.Nodes, metallb.Node{Name: m.Name})
	}
	return l, withMetalLB(t, l, c, metallb.SpeakerFlags)
}

// daemonPods are the pods of a DaemonSet called speaker, which stand for the speakers: DaemonSet controllers make and delete them, and
// the speakers run beside.
type daemonPods struct {
	t    *testing.T
	l    *lab.Lab
	were map[string]types.UID // by machine, of those that have not left
}

func speakerPods(t *testing.T, r *reader) *daemonPods {
	t.Helper()
	r.put(`apiVersion: apps/v1
kind: DaemonSet
metadata: {namespace: metallb-system, name: speaker}
spec:
  selector: {matchLabels: {of: speaker}}
  template:
    metadata: {labels: {of: speaker}, annotations: {` + kubelet.BesideAnnotation + `: "true"}}
    spec: {hostNetwork: true, terminationGracePeriodSeconds: 2, containers: [{name: one, image: theirs}]}
`)
	p := &daemonPods{t: t, l: r.l}
	machines := len(r.l.Topology.Machines())
	p.until(func(is map[string]types.UID) bool { p.were = is; return len(is) == machines })
	return p
}

// running are the pods that run, by machine.
func (p *daemonPods) running(ctx context.Context) (map[string]types.UID, error) {
	list, err := p.l.Kube.CoreV1().Pods("metallb-system").List(ctx, metav1.ListOptions{LabelSelector: "of=speaker"})
	if err != nil {
		return nil, err
	}
	is := map[string]types.UID{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			is[pod.Spec.NodeName] = pod.UID
		}
	}
	return is, nil
}

func (p *daemonPods) until(good func(is map[string]types.UID) bool) {
	p.t.Helper()
	must(p.t, lab.Within(p.t.Context(), 30*time.Second, func(ctx context.Context) error {
		is, err := p.running(ctx)
		if err == nil && !good(is) {
			err = fmt.Errorf("speakers' pods run on %v", slices.Sorted(maps.Keys(is)))
		}
		return err
	}))
}

func (p *daemonPods) leave(machine string) {
	p.t.Helper()
	p.until(func(is map[string]types.UID) bool { return is[machine] == "" })
	delete(p.were, machine)
}

func (p *daemonPods) come(machine string) {
	p.t.Helper()
	p.until(func(is map[string]types.UID) bool { return is[machine] != "" })
}

// stay makes sure that those that have not left are the same as ever: none was replaced.
func (p *daemonPods) stay() {
	p.t.Helper()
	is, err := p.running(p.t.Context())
	must(p.t, err)
	if !maps.Equal(is, p.were) {
		p.t.Errorf("speakers' pods are %v, and were %v", is, p.were)
	}
}

// inSessions waits until a machine's speaker has its sessions with all routers.
func inSessions(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
		metrics, err := l.MetricsAt(ctx, machine, metallb.SpeakerPort)
		if up := len(sessionUp.FindAllString(metrics, -1)); err == nil && up != len(l.Topology.Routers) {
			err = fmt.Errorf("the speaker of %s has %d sessions", machine, up)
		}
		return err
	}))
}

var sessionUp = regexp.MustCompile(`(?m)^metallb_bgp_session_up\{.*\} 1$`)

// nothingLeft makes sure that Plinth left nothing on Services, and holds no address.
func nothingLeft(t *testing.T, l *lab.Lab) {
	t.Helper()
	services, err := l.Kube.CoreV1().Services(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, s := range services.Items {
		if len(s.Finalizers)+len(s.Status.Conditions) > 0 {
			t.Errorf("%s has the finalizers %v and the conditions %v", s.Name, s.Finalizers, s.Status.Conditions)
		}
	}
	held, err := l.Kube.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{LabelSelector: "ipaddress.kubernetes.io/managed-by=plinth.dev"})
	must(t, err)
	if len(services.Items) == 0 || len(held.Items) > 0 {
		t.Errorf("of %d Services %d addresses are held", len(services.Items), len(held.Items))
	}
}

func shell(t *testing.T, l *lab.Lab, line string) error {
	t.Helper()
	out, err := l.Shell(t.Context(), lab.ControlHost, t.TempDir(), line)
	t.Logf("$ %s\n%s", line, out)
	return err
}

// others are all machines but one.
func others(l *lab.Lab, machine string) (names []string) {
	for _, m := range l.Topology.Machines() {
		if m.Name != machine {
			names = append(names, m.Name)
		}
	}
	return names
}

// together does things at the same time, such as to end a pod of one DaemonSet while another one's begins, and waits for all.
func together(t *testing.T, all ...func() error) {
	t.Helper()
	var done sync.WaitGroup
	for _, do := range all {
		done.Go(func() {
			if err := do(); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
}

var sessionsUp = regexp.MustCompile(`sessions (\d+)/(\d+)`)

// inSession has a machine's condition looked at until it says what the guide wants to read: all sessions are up.
func (r *reader) inSession(machine, line string) {
	r.t.Helper()
	must(r.t, lab.Within(r.t.Context(), 30*time.Second, func(ctx context.Context) error {
		said := r.types(lab.ControlHost, line, "w1", machine)
		if found := sessionsUp.FindStringSubmatch(said); found == nil || found[1] != found[2] || found[1] == "0" {
			return fmt.Errorf("%s says %q", machine, said)
		}
		return nil
	}))
}

// cost is what clients lost while machines were changed, one by one.
type cost struct {
	sent, lost int
	held       lab.HeldReport
}

func (c cost) String() string {
	return fmt.Sprintf("%d of %d packets lost; %s", c.lost, c.sent, c.held)
}

// nothing is what clients lose while no machine is changed.
func (c cost) nothing(t *testing.T, what string) {
	t.Helper()
	t.Logf("%s: %s", what, c)
	if c.sent == 0 || c.lost > 0 || c.held.Broken > 0 {
		t.Errorf("%s: %s", what, c)
	}
}

// longer is how much longer than during a drain an answer may take over a connection that does not break: a packet that is lost is
// sent again after 200 ms at the soonest, and twice as long each time after.
const longer = time.Second

// noMoreThan holds it against another one. Which connections a router sends elsewhere when it has one way less, or one more, is
// chance: of as many connections each breaks with about the same probability, and their number differs by less than four
// standard deviations of a difference.
func (c cost) noMoreThan(t *testing.T, name string, o cost) {
	t.Helper()
	n, p := float64(o.held.Connections), float64(o.held.Broken)/float64(o.held.Connections)
	chance := int(4 * math.Sqrt(2*n*p*(1-p)))
	if c.sent == 0 || c.lost > o.lost || o.lost > o.sent/1000 || c.held.Longest > o.held.Longest+longer || c.held.Connections != o.held.Connections || c.held.Broken > o.held.Broken+chance {
		t.Errorf("%s: %s; a drain: %s, and chance may make %d more", name, c, o, chance)
	}
}

// changing does something to each machine in turn, waits until it announces all VIPs again, and adds up what clients lost. To
// each machine they come with connections of their own.
func changing(t *testing.T, l *lab.Lab, vips map[netip.Addr]string, what string, do func(machine string)) (sum cost) {
	t.Helper()
	for _, m := range l.Topology.Machines() {
		end := watchFabric(t, l, vips)
		do(m.Name)
		story.Announced(t, l, slices.Collect(maps.Keys(vips)))
		story.PauseFor(t, 2*time.Second)
		one := end()
		t.Logf("%s of %s: %s", what, m.Name, one)
		sum.sent, sum.lost = sum.sent+one.sent, sum.lost+one.lost
		sum.held.Add(one.held)
	}
	t.Logf("%s of all machines: %s", what, sum)
	return sum
}

// steady waits until packets have arrived for a second, and forgets those of before.
func steady(t *testing.T, all ...*lab.Prober) {
	t.Helper()
	var calm []func() error
	for _, p := range all {
		calm = append(calm, func() error { return p.Steady(t.Context(), time.Second) })
	}
	together(t, calm...)
	for _, p := range all {
		p.Forget()
	}
}

// watchFabric has a client send packets, and hold connections, to all VIPs until the function that it returns is called.
func watchFabric(t *testing.T, l *lab.Lab, vips map[netip.Addr]string) (end func() cost) {
	t.Helper()
	var held []*lab.Held
	var packets []*lab.Prober
	for vip := range vips {
		h, err := l.Hold(t.Context(), lab.ClientHost, net.JoinHostPort(vip.String(), "80"), (connections+len(vips)-1)/len(vips), 100*time.Millisecond)
		must(t, err)
		p, err := l.ProbeUDPFrom(t.Context(), lab.ClientHost, net.JoinHostPort(vip.String(), "7"), packetsASecond/len(vips))
		must(t, err)
		held, packets = append(held, h), append(packets, p)
	}
	steady(t, packets...)
	return func() (c cost) {
		for i, p := range packets {
			r := p.Stop()
			if r.Sent == 0 {
				t.Errorf("no packet was sent: %s", r)
			}
			if r.Lost > 0 {
				t.Log(r)
			}
			c.sent, c.lost = c.sent+r.Sent, c.lost+r.Lost
			c.held.Add(held[i].Stop())
		}
		return c
	}
}
