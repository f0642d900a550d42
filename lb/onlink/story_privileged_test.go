//go:build privileged

package onlink

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/wait"
)

// addressState is what a responder with one link says of an address.
func addressState(t testing.TB, r *Responder, addr netip.Addr) AddressState {
	t.Helper()
	for _, l := range r.State() {
		for _, a := range l.Addresses {
			if a.Addr == addr {
				return a
			}
		}
	}
	t.Fatal("nothing of", addr, "in", r.State())
	return AddressState{}
}

// macOf is the MAC of an interface of a host.
func macOf(h *host, name string) MAC {
	_, mac := interfaceIn(h.t, h.open, name)
	return mac
}

func waitFor(t testing.TB, r *Responder, what string, done func() bool) {
	t.Helper()
	wait.True(t, 10*time.Second, time.Millisecond, what, func() (bool, string) { return done(), fmt.Sprintf("%+v", r.State()) })
}

func TestAStrangerIsNamedOnItsFirstFrameAndDefendedAgainstOnce(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		lan := newLAN(t)
		owner, stranger := lan.host(1), lan.host(66)
		sniffer := owner.sniff()
		r := owner.responder(nil)
		set(t, r, f.link(owner, f.addr(100), f.addr(101)))
		tap := stranger.tap("eth0", f.etherType)
		within(t, "the burst is over", func() string {
			for _, addr := range []netip.Addr{f.addr(100), f.addr(101)} {
				if n := len(sniffer.saying(time.Time{}, addr)); n < burstFrames[f.name] {
					return "too few announcements"
				}
			}
			return ""
		})
		began := time.Now()
		tap.mustSend(announcement(tap.mac, f.addr(100)))
		waitFor(t, r, "the conflict is told", func() bool {
			a := addressState(t, r, f.addr(100))
			return a.Reason == lb.AddressConflict && a.Conflict.MAC == tap.mac
		})
		t.Log("named after", time.Since(began))
		for range 50 {
			tap.mustSend(announcement(tap.mac, f.addr(100)))
		}
		within(t, "the claim is defended", func() string {
			if len(defences(sniffer, began, f.addr(100))) == 0 {
				return "it is not"
			}
			return ""
		})
		tap.mustSend(announcement(tap.mac, f.addr(101)))
		waitFor(t, r, "the last frame is taken in", func() bool { return addressState(t, r, f.addr(101)).Conflict.MAC == tap.mac })
		if got := defences(sniffer, began, f.addr(100)); len(got) != 1 {
			t.Errorf("%d announcements against 51 of the stranger's", len(got))
		}
	})
}

// burstFrames is how many frames announce a new claim.
var burstFrames = map[string]int{"IPv4": 9, "IPv6": 6}

// defences are the announcements of an address.
func defences(s *sniffer, since time.Time, addr netip.Addr) []sniffed {
	return slices.DeleteFunc(s.saying(since, addr), func(f sniffed) bool { return f.asserts != addr })
}

// nextAnnouncement is in how long an address is announced again.
func (l *link) nextAnnouncement(addr netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.vips[addr].announcement.due - l.vips[addr].announcement.begun
}

func TestAMachineThatClaimsIsHeardAndIsNoStranger(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		lan := newLAN(t)
		owner, other := lan.host(1), lan.host(2)
		r := owner.responder(nil)
		c := f.link(owner, f.addr(100))
		c.Machines, c.Watched = []netip.Addr{f.addr(2)}, []netip.Addr{f.addr(101)}
		set(t, r, c)
		knows := func() bool {
			l := r.links[c.Subnet]
			l.mu.Lock()
			defer l.mu.Unlock()
			_, known := l.machineWith(macOf(other, "eth0"))
			return known
		}
		within(t, "the machine's MAC is known", func() string {
			if !knows() {
				return "it is not"
			}
			return ""
		})
		set(t, other.responder(nil), f.link(other, f.addr(100), f.addr(101)))
		waitFor(t, r, "the machine is heard", func() bool {
			return addressState(t, r, f.addr(100)).Heard.Machine == f.addr(2) && addressState(t, r, f.addr(101)).Heard.Machine == f.addr(2)
		})
		for _, a := range r.links[c.Subnet].state().Addresses {
			if a.Reason != "" || a.Heard.MAC != macOf(other, "eth0") {
				t.Errorf("%+v", a)
			}
		}
	})
}

func TestAMoveTakesADozenFramesAndSettingItAgainNone(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		lan := newLAN(t)
		owner := lan.host(1)
		sniffer := owner.sniff()
		r := owner.responder(nil)
		begun := time.Now()
		set(t, r, f.link(owner, f.addr(100)))
		want := burstFrames[f.name]
		over := func(addr netip.Addr, since time.Time) {
			within(t, "the burst is over, and seen", func() string {
				if seen := len(sniffer.saying(since, addr)); seen < want || r.links[f.link(owner).Subnet].nextAnnouncement(addr) < time.Minute {
					return fmt.Sprintf("%d frames of it", seen)
				}
				return ""
			})
		}
		over(f.addr(100), begun)
		moved := time.Now()
		for range 10 {
			set(t, r, f.link(owner, f.addr(100), f.addr(101)))
		}
		over(f.addr(101), moved)
		if n := len(sniffer.saying(moved, f.addr(101))); n != want {
			t.Errorf("%d frames of the one that moved, want %d", n, want)
		}
		if n := len(sniffer.saying(moved, f.addr(100))); n != 0 {
			t.Errorf("%d frames of the one that did not", n)
		}
		var times []time.Duration
		for _, s := range sniffer.saying(moved, f.addr(101)) {
			times = append(times, s.at.Sub(moved).Round(time.Millisecond))
		}
		t.Log(times)
		back := time.Now()
		r.AnnounceAnew(f.link(owner).Subnet, f.addr(101))
		over(f.addr(101), back)
		if n := len(sniffer.saying(back, f.addr(101))); n != want {
			t.Errorf("%d frames for machines that are back, want %d", n, want)
		}
	})
}

func TestANoisyLANWakesNobody(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		lan := newLAN(t)
		owner, noisy := lan.host(1), lan.host(2)
		r := owner.responder(nil)
		set(t, r, f.link(owner, f.addr(100)))
		asker := noisy.responder(nil)
		set(t, asker, f.link(noisy))
		tap := noisy.tap("eth0", f.etherType)
		l := r.links[f.link(owner).Subnet]
		l.woken(t)
		for i := range 1000 {
			tap.mustSend(question(tap.mac, f.addr(2), f.addr(110+i%100), MAC{}))
		}
		tap.mustSend(announcement(tap.mac, f.addr(2)))
		if got, err := asker.Ask(t.Context(), f.link(noisy).Subnet, f.addr(100), 1, 5*time.Second); err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		if n := l.woken(t); n != 1 {
			t.Errorf("woken %d times, to answer once", n)
		}
	})
}

// becomes waits for the only link to have a reason and an interface.
func becomes(t testing.TB, r *Responder, reason lb.Reason, on string) {
	t.Helper()
	waitFor(t, r, "the link becomes "+string(reason)+" on "+on, func() bool {
		s := r.State()
		return len(s) == 1 && s[0].Reason == reason && s[0].Interface == on
	})
}

func TestALinkFollowsItsAddress(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		lan := newLAN(t)
		owner, client := lan.host(1), lan.host(2)
		r := owner.responder(nil)
		set(t, r, f.link(owner, f.addr(100)))
		client.resolves(f.addr(100), owner.mac("eth0"))
		answeredBy := func(name string) {
			t.Helper()
			client.ip("neigh flush all")
			client.resolves(f.addr(100), owner.mac(name))
		}
		if f.name == "IPv6" { // or the address goes with the carrier
			owner.sysctl("net.ipv6.conf.eth0.keep_addr_on_down=1")
		}
		lan.ip("link set p1eth0 down")
		becomes(t, r, lb.NoCarrier, "eth0")
		lan.ip("link set p1eth0 up")
		becomes(t, r, "", "eth0")
		answeredBy("eth0")

		owner.ip("link set eth0 down")
		becomes(t, r, lb.NoCarrier, "eth0")
		owner.ip("link set eth0 up")
		becomes(t, r, "", "eth0")
		answeredBy("eth0")

		owner.ip("link set eth0 address 02:00:00:00:07:07")
		waitFor(t, r, "the new MAC", func() bool { return r.State()[0].MAC == MAC{2, 0, 0, 0, 7, 7} })
		within(t, "the cache follows the MAC", func() string {
			if got := client.neighbor(f.addr(100)); got != "02:00:00:00:07:07" {
				return got
			}
			return ""
		})

		owner.plug("eth1")
		bits := map[string]string{"IPv4": "/24", "IPv6": "/64"}[f.name]
		owner.ip("addr del " + f.addr(1).String() + bits + " dev eth0")
		becomes(t, r, lb.NoInterface, "")
		owner.ip("addr add " + f.addr(1).String() + bits + " dev eth1")
		becomes(t, r, "", "eth1")
		answeredBy("eth1")

		owner.ip("link del eth1")
		becomes(t, r, lb.NoInterface, "")
		owner.plug("eth1")
		owner.ip("addr add " + f.addr(1).String() + bits + " dev eth1")
		becomes(t, r, "", "eth1")
		answeredBy("eth1")
	})
}

func TestAClaimThatIsAnAddressOfTheMachineIsNamed(t *testing.T) {
	lan := newLAN(t)
	owner := lan.host(1)
	r := owner.responder(nil)
	set(t, r, owner.link4(addr4(100)))
	owner.ip("link add kube-ipvs0 type bridge")
	owner.ip("addr add " + addr4(100).String() + "/32 dev kube-ipvs0")
	waitFor(t, r, "the interface is named", func() bool {
		a := addressState(t, r, addr4(100))
		return a.Reason == lb.AddressOnInterface && a.OnInterface == "kube-ipvs0"
	})
	owner.ip("link del kube-ipvs0")
	waitFor(t, r, "the interface is gone", func() bool { return addressState(t, r, addr4(100)).Reason == "" })
}

func TestWithoutTheCapabilityALinkSaysSoAndOthersWork(t *testing.T) {
	lan := newLAN(t)
	owner, client := lan.host(1), lan.host(2)
	r := owner.responder(nil)
	open := owner.open
	denied := 0
	r.options.open = func(domain, typ, proto int) (int, error) {
		if domain == unix.AF_PACKET {
			if denied++; denied == 1 {
				return -1, unix.EPERM
			}
		}
		return open(domain, typ, proto)
	}
	set(t, r, owner.link4(addr4(100)), owner.link6(addr6(100)))
	s := r.State()
	if s[0].Reason != lb.CapabilityMissing || s[1].Reason != "" {
		t.Fatalf("%+v", s)
	}
	client.resolves(addr6(100), owner.mac("eth0"))
}
