package onlink

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

const (
	// longestGap is that of a machine that falls silent without a word: 300 ms until it is known,
	// and what the kernels of phones take.
	longestGap = 450 * time.Millisecond
	// longestTwice is for how long two machines may answer.
	longestTwice = 500 * time.Millisecond
)

func TestAMachineWithoutPowerIsFollowedOnTheLink(t *testing.T) {
	l := story.Home(t)
	vips := story.Outside(t, l, "cut-a", "cut-b", "cut-c")
	was := story.Owned(t, l, vips)
	dead := ownerOfBoth(was, vips)
	of := func(is4 bool) netip.Addr {
		return vips[max(0, slices.IndexFunc(vips, func(v netip.Addr) bool { return v.Is4() == is4 && was[v] == dead }))]
	}
	v4, v6 := story.Packets(t, l, of(true)), story.Packets(t, l, of(false))
	around := beyondTheGateway(t, l, of(true), of(false))
	boot := story.Powerless(t, l, dead)
	must(t, v4.Steady(t.Context(), time.Second))
	must(t, v6.Steady(t.Context(), time.Second))
	withinGap(t, "IPv4", v4, longestGap)
	withinGap(t, "IPv6", v6, longestGap)
	now := story.Owned(t, l, vips)
	for vip, p := range around {
		withinGap(t, "from beyond the gateway to "+vip.String(), p, longestGap)
		knows, err := l.NeighbourOf(t.Context(), lab.HomeGateway, vip)
		must(t, err)
		if knows != now[vip] {
			t.Errorf("the gateway takes %s to be at %q, and %s answers for it", vip, knows, now[vip])
		}
	}
	for vip, owner := range was {
		if owner != dead && now[vip] != owner {
			t.Errorf("%s moved from %s to %s, which nobody had to", vip, owner, now[vip])
		}
	}
	ownersSaid(t, l, now)
	boot()
	must(t, l.WaitReady(t.Context(), 30*time.Second))
	must(t, story.LinksUp(t.Context(), l))
	story.Stays(t, l, now)
	ownersSaid(t, l, now)
}

// ownerOfBoth is a machine with VIPs of both families, or else that with the first VIP.
func ownerOfBoth(owners map[netip.Addr]string, vips []netip.Addr) string {
	for _, vip := range vips {
		if slices.ContainsFunc(vips, func(v netip.Addr) bool { return v.Is4() != vip.Is4() && owners[v] == owners[vip] }) {
			return owners[vip]
		}
	}
	return owners[vips[0]]
}

// beyondTheGateway sends packets to VIPs from the client outside: the router's neighbour cache is what has to follow.
func beyondTheGateway(t *testing.T, l *lab.Lab, vips ...netip.Addr) map[netip.Addr]*lab.Prober {
	t.Helper()
	probes := map[netip.Addr]*lab.Prober{}
	for _, vip := range vips {
		p, err := l.ProbeUDP(t.Context(), net.JoinHostPort(vip.String(), "7"), 200)
		must(t, err)
		t.Cleanup(func() { p.Stop() })
		must(t, p.Steady(t.Context(), time.Second))
		p.Forget()
		probes[vip] = p
	}
	return probes
}

// ownersSaid waits until the API server says who answers: claims, and Events where it is another one.
func ownersSaid(t *testing.T, l *lab.Lab, owners map[netip.Addr]string) {
	t.Helper()
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		events, err := l.Kube.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=OwnerChanged"})
		if err != nil {
			return err
		}
		for vip, owner := range owners {
			claim, err := l.Kube.NetworkingV1().IPAddresses().Get(ctx, vip.String(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			if said := claim.Labels["plinth.dev/owner"]; said != owner {
				return fmt.Errorf("%s answers for %s, and its IPAddress says %q", owner, vip, said)
			}
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.HasPrefix(e.Message, owner+" answers for "+vip.String()) }) {
				return fmt.Errorf("no Event says that %s answers for %s", owner, vip)
			}
		}
		return nil
	}))
}

// TestAnAgentThatIsReplacedLosesAndMovesNothingOnTheLink ends an agent in two ways and starts another, with an API server
// and while there is none: the new one knows from its disk who is to answer, and asks nobody.
func TestAnAgentThatIsReplacedLosesAndMovesNothingOnTheLink(t *testing.T) {
	l := story.Home(t)
	vips := story.Outside(t, l, "kept-a", "kept-b", "kept-c")
	for _, away := range []bool{false, true} {
		if away {
			withoutAPIServer(t, l)
		}
		for name, signal := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL} {
			if away {
				name += " without an API server"
			}
			replaced(t, l, vips, name, signal)
		}
	}
}

// replaced has the owner of the first VIP run another agent: all VIPs stay where they are, and no packet and no
// connection is lost.
func replaced(t *testing.T, l *lab.Lab, vips []netip.Addr, name string, signal syscall.Signal) {
	t.Helper()
	was := story.Owned(t, l, vips)
	machine := was[vips[0]]
	held, err := l.Hold(t.Context(), lab.Phone, net.JoinHostPort(vips[0].String(), "80"), 50, 100*time.Millisecond)
	must(t, err)
	p := story.Packets(t, l, vips[0])
	asker, err := l.AskFrom(t.Context(), lab.Laptop, 50*time.Millisecond, vips...)
	must(t, err)
	must(t, l.StopAgent(t.Context(), machine, signal))
	story.PauseFor(t, 3*time.Second) // an image is pulled
	must(t, l.StartAgentAgain(machine))
	must(t, story.LinksUp(t.Context(), l))
	story.PauseFor(t, 2*time.Second) // a newborn that takes something would
	strangers := map[netip.Addr][]string{}
	macs, err := l.MACs()
	must(t, err)
	for _, one := range asker.Stop() {
		for _, mac := range one.MACs() {
			if macs[mac] != was[one.Address] {
				strangers[one.Address] = append(strangers[one.Address], macs[mac])
			}
		}
	}
	if len(strangers) > 0 {
		t.Errorf("%s: others than the owner answered: %v, by %v", name, was, strangers)
	}
	story.Stays(t, l, was)
	r, h := p.Stop(), held.Stop()
	t.Logf("%s of the agent of %s: %s; %s", name, machine, r, h)
	if r.Sent == 0 || r.Lost > 0 || h.Answers == 0 || h.Broken > 0 {
		t.Errorf("%s: %d packets lost, %d of %d connections broken", name, r.Lost, h.Broken, h.Connections)
	}
}

// The machine that an address is to be on is back, and has left it to the one that followed.
func TestAnAgentThatIsReplacedKeepsWhatItsMachineInheritedOnTheLink(t *testing.T) {
	l := story.Home(t)
	vips := story.Outside(t, l, "left")[:1]
	boot := story.Powerless(t, l, story.Owned(t, l, vips)[vips[0]])
	must(t, story.Packets(t, l, vips[0]).Steady(t.Context(), time.Second))
	boot()
	must(t, l.WaitReady(t.Context(), 30*time.Second))
	must(t, story.LinksUp(t.Context(), l))
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		was := story.Owned(t, l, vips)
		must(t, l.StopAgent(t.Context(), was[vips[0]], signal))
		story.PauseFor(t, 3*time.Second)
		must(t, l.StartAgentAgain(was[vips[0]]))
		must(t, story.LinksUp(t.Context(), l))
		story.PauseFor(t, 6*time.Second) // the first home looks every five seconds whether it is answered for
		story.Stays(t, l, was)
	}
}

func TestAnIsolatedOwnerFallsSilentAndOneAnswersOnceItIsBack(t *testing.T) {
	l := story.Home(t)
	vips := story.Outside(t, l, "split-a", "split-b", "split-c")
	was := story.Owned(t, l, vips)
	alone := was[vips[0]]
	inside, err := l.AskFrom(t.Context(), lab.Laptop, 10*time.Millisecond, vips...)
	must(t, err)
	around, err := l.AskFrom(t.Context(), lab.Phone, 10*time.Millisecond, vips...)
	must(t, err)
	t.Cleanup(func() { must(t, l.SetSevered(context.Background())) })
	severed := time.Now()
	must(t, l.SetSevered(t.Context(), lab.Apart([]string{alone, lab.Laptop}, l.Others(story.Shelf, alone, lab.Laptop))...))
	story.PauseFor(t, 4*time.Second)
	for _, one := range inside.Asked() {
		if since := one.At.Sub(severed); since > longestTwice && len(one.Answers) > 0 {
			t.Errorf("%s, which sees nobody, answered for %s after %s", alone, one.Address, since)
			break
		}
	}
	healed := time.Now()
	must(t, l.SetSevered(t.Context()))
	must(t, story.LinksUp(t.Context(), l))
	story.PauseFor(t, time.Second)
	inside.Stop()
	answered := map[netip.Addr]bool{}
	for _, one := range around.Stop() {
		if since := one.At.Sub(healed); since > longestTwice && len(one.MACs()) > 1 {
			t.Errorf("%v answered for %s after %s", one.MACs(), one.Address, since)
			break
		}
		if one.At.After(severed.Add(time.Second)) && len(one.Answers) > 0 {
			answered[one.Address] = true
		}
	}
	if len(answered) != len(vips) {
		t.Errorf("only %v were answered for while %s was away", answered, alone)
	}
	story.Owned(t, l, vips)
}

func TestTheLastMachineServesWhileTheGatewayAnswers(t *testing.T) {
	l := story.Home(t)
	vips := story.Outside(t, l, "last")
	serveAlone(t, l, vips)
}

// TestTheLastMachineServesWithoutAnAPIServer has the agent of the last machine replaced, too: the new one has on its disk
// what it is to answer for, and nobody to ask.
func TestTheLastMachineServesWithoutAnAPIServer(t *testing.T) {
	l := story.Home(t)
	vips := story.Outside(t, l, "alone")
	withoutAPIServer(t, l)
	last := serveAlone(t, l, vips)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		must(t, l.StopAgent(t.Context(), last, signal))
		must(t, l.StartAgentAgain(last))
		for _, vip := range vips {
			if _, err := l.WaitOwner(t.Context(), lab.Laptop, vip, last); err != nil {
				t.Errorf("after %s of its agent the last machine should answer: %v", signal, err)
			}
		}
	}
	must(t, story.Packets(t, l, vips[0]).Steady(t.Context(), time.Second))
}

// serveAlone cuts the power of two of three machines, one after the other, and returns the last one, which answers. The
// first is followed by a majority, the second by a machine that has to make sure that it is the last.
func serveAlone(t *testing.T, l *lab.Lab, vips []netip.Addr) (last string) {
	t.Helper()
	other := vips[slices.IndexFunc(vips, func(v netip.Addr) bool { return v.Is4() != vips[0].Is4() })]
	packets := func() map[netip.Addr]*lab.Prober {
		t.Helper()
		return map[netip.Addr]*lab.Prober{vips[0]: story.Packets(t, l, vips[0]), other: story.Packets(t, l, other)}
	}
	within := func(what string, probes map[netip.Addr]*lab.Prober, most time.Duration) {
		t.Helper()
		for _, p := range probes {
			must(t, p.Steady(t.Context(), time.Second))
		}
		for vip, p := range probes {
			withinGap(t, what+": "+vip.String(), p, most)
		}
	}
	first := story.Owned(t, l, vips[:1])[vips[0]]
	probes := packets()
	story.Powerless(t, l, first)
	within("one of three machines off", probes, longestGap)
	second := story.Owned(t, l, vips[:1])[vips[0]]
	probes = packets()
	story.Powerless(t, l, second)
	for _, m := range l.Topology.Machines() {
		if m.Name != first && m.Name != second {
			last = m.Name
		}
	}
	for _, vip := range vips {
		if _, err := l.WaitOwner(t.Context(), lab.Laptop, vip, last); err != nil {
			t.Errorf("the last machine should answer: %v", err)
		}
	}
	within("two of three machines off", probes, 2*time.Second)
	return last
}

// withoutAPIServer stops the API server until the story ends.
func withoutAPIServer(t *testing.T, l *lab.Lab) {
	t.Helper()
	t.Cleanup(func() {
		must(t, l.StartAPIServer(context.Background()))
		must(t, l.WaitReady(context.Background(), time.Minute))
	})
	must(t, l.StopAPIServer(t.Context()))
}

// withinGap makes sure that one row of packets was lost at most, and how long it was, but for what
// this machine itself stood still.
func withinGap(t *testing.T, what string, p *lab.Prober, most time.Duration) {
	t.Helper()
	r := p.Stop()
	still := p.Stalled(r.FirstLoss, r.LastLoss)
	t.Logf("%s: %s; this machine stood still for %s", what, r, still)
	if r.Sent == 0 || r.Longest-still > most {
		t.Errorf("%s: a gap of %s, want %s at most", what, r.Longest-still, most)
	}
}
