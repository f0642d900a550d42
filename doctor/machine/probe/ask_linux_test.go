package probe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/lb/onlink"
)

// hosts are who answers on a link, by their addresses. They note how they are asked, and the least time between two frames.
type hosts struct {
	macs  map[string]onlink.MAC
	fails string
	asked []string
	last  time.Time
	gap   time.Duration
}

func (h *hosts) note(how string, addr netip.Addr, tries int) ([]onlink.MAC, error) {
	if now := time.Now(); h.last.IsZero() {
		h.last, h.gap = now, time.Hour
	} else {
		h.gap, h.last = min(h.gap, now.Sub(h.last)), now
	}
	h.asked = append(h.asked, fmt.Sprintf("%s %v x%d", how, addr, tries))
	if addr.String() == h.fails {
		return nil, errors.New("the link is gone")
	}
	if mac, has := h.macs[addr.String()]; has {
		return []onlink.MAC{mac}, nil
	}
	return nil, nil
}

func (h *hosts) Ask(_ context.Context, _ netip.Prefix, addr netip.Addr, tries int, _ time.Duration) ([]onlink.MAC, error) {
	return h.note("ask", addr, tries)
}

func (h *hosts) Probe(_ context.Context, _ netip.Prefix, addr netip.Addr, tries int, _ time.Duration) ([]onlink.MAC, error) {
	return h.note("probe", addr, tries)
}

// asked is a link with this machine, a pool and two other machines.
func asked(self, pool, machines string, h *hosts) *askedLink {
	l := &askedLink{responder: h, every: 5 * time.Millisecond, on: "eth0", config: onlink.Link{Self: netip.MustParseAddr(self)}}
	for _, a := range strings.Fields(pool) {
		l.pools = append(l.pools, netip.MustParseAddr(a))
	}
	for _, a := range strings.Fields(machines) {
		l.machines = append(l.machines, netip.MustParseAddr(a))
	}
	return l
}

func TestALinkIsAskedAsLittleAsWillDo(t *testing.T) {
	w2, w3, stranger := onlink.MAC{2, 2}, onlink.MAC{2, 3}, onlink.MAC{2, 9}
	for _, c := range []struct {
		what, self, pool, machines string
		hosts                      hosts
		asked, answers             string
	}{
		{"nobody answers, and no machine is asked", "10.0.0.1", "10.0.0.8", "10.0.0.2", hosts{}, "probe 10.0.0.1 x1, probe 10.0.0.1 x1, probe 10.0.0.8 x1, probe 10.0.0.8 x1", "[]"},
		{"a machine answers", "10.0.0.1", "10.0.0.8", "10.0.0.2 10.0.0.3", hosts{macs: map[string]onlink.MAC{"10.0.0.1": stranger, "10.0.0.8": w2, "10.0.0.2": w2, "10.0.0.3": w3}},
			"probe 10.0.0.1 x1, probe 10.0.0.8 x1, probe 10.0.0.2 x1, probe 10.0.0.3 x1", "[{eth0 10.0.0.1 02:09:00:00:00:00 false} {eth0 10.0.0.8 02:02:00:00:00:00 true}]"},
		{"all is known", "10.0.0.1", "10.0.0.8", "10.0.0.2 10.0.0.3", hosts{macs: map[string]onlink.MAC{"10.0.0.8": w2, "10.0.0.2": w2}},
			"probe 10.0.0.1 x1, probe 10.0.0.1 x1, probe 10.0.0.8 x1, probe 10.0.0.2 x1", "[{eth0 10.0.0.8 02:02:00:00:00:00 true}]"},
		{"IPv6 is asked as the machine, and not for itself", "fd01::1", "fd01::8", "", hosts{macs: map[string]onlink.MAC{"fd01::8": w3}}, "ask fd01::8 x1", "[{eth0 fd01::8 02:03:00:00:00:00 false}]"},
		{"the link goes", "10.0.0.1", "10.0.0.8 10.0.0.9", "10.0.0.2", hosts{fails: "10.0.0.8"}, "probe 10.0.0.1 x1, probe 10.0.0.1 x1, probe 10.0.0.8 x1", "[]"},
	} {
		l := asked(c.self, c.pool, c.machines, &c.hosts)
		l.ask(t.Context())
		if got := strings.Join(c.hosts.asked, ", "); got != c.asked || fmt.Sprint(l.answers) != c.answers || (l.err != nil) != (c.hosts.fails != "") {
			t.Errorf("%s: %s\n%v, %v", c.what, got, l.answers, l.err)
		}
		if c.hosts.gap < l.every {
			t.Errorf("%s: two frames are sent within %v", c.what, c.hosts.gap)
		}
	}
}

func TestLinksOfAnInterfaceAreAskedOneAfterTheOther(t *testing.T) {
	var h hosts
	links := []*askedLink{asked("10.0.0.1", "10.0.0.8", "", &h), asked("10.0.1.1", "10.0.1.8", "", &h), asked("fd01::1", "fd01::8", "", &h)}
	askAll(t.Context(), links)
	if len(h.asked) != 10 || h.gap < links[0].every {
		t.Errorf("%v, two within %v", h.asked, h.gap)
	}
}

func TestARouterThatDoesNotAnswerWasAsked(t *testing.T) {
	h := &hosts{macs: map[string]onlink.MAC{"10.0.0.253": {2, 1}}, fails: "10.0.0.252"}
	l := asked("10.0.0.1", "", "", h)
	for _, a := range []string{"10.0.0.253", "10.0.0.254", "10.0.0.252"} {
		l.routers = append(l.routers, machine.Router{Address: netip.MustParseAddr(a)})
	}
	l.ask(t.Context())
	var got []string
	for _, r := range l.routers {
		got = append(got, fmt.Sprintf("%v %q", r.Asked, r.MAC))
	}
	if want := []string{`true "02:01:00:00:00:00"`, `true ""`, `false ""`}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestALinkIsAskedInTenFramesASecond(t *testing.T) {
	l := askedLink{every: askEvery}
	begun := time.Now()
	for range 4 {
		if !l.turn(t.Context()) {
			t.Fatal("the context ended")
		}
	}
	if took := time.Since(begun); took < 3*100*time.Millisecond {
		t.Errorf("four frames are sent in %v", took)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if l.next = time.Now().Add(time.Hour); l.turn(ended) {
		t.Error("a frame is sent after the end")
	}
}
