//go:build privileged

package onlink

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/uptime"
)

var unixSocket opener = unix.Socket

// sendDatagram sends a byte to the discard port.
func sendDatagram(t testing.TB, open opener, addr netip.Addr) {
	t.Helper()
	domain, to := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: 9})
	if addr.Is4() {
		to.(*unix.SockaddrInet4).Addr = addr.As4()
	} else {
		domain, to = unix.AF_INET6, &unix.SockaddrInet6{Port: 9, Addr: addr.As16()}
	}
	fd, err := open(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_ = unix.Sendto(fd, []byte{0}, 0, to) // EHOSTUNREACH while nobody answers
}

func TestAnotherKernelResolvesAClaimAndNothingElse(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		addr, link := f.addr, f.link
		lan := newLAN(t)
		owner, client := lan.host(1), lan.host(2)
		r := owner.responder(nil)
		set(t, r, link(owner, addr(100)))
		client.resolves(addr(100), owner.mac("eth0"))

		subnet := link(client).Subnet
		asker := client.responder(nil)
		set(t, asker, link(client))
		for _, one := range []struct {
			addr netip.Addr
			want int
		}{{addr(100), 1}, {addr(101), 0}, {addr(1), 1}} {
			for name, ask := range map[string]func(context.Context, netip.Prefix, netip.Addr, int, time.Duration) ([]MAC, error){"ask": asker.Ask, "probe": asker.Probe, "ask all": asker.AskAll} {
				got, err := ask(t.Context(), subnet, one.addr, 3, 200*time.Millisecond)
				if err != nil || len(got) != one.want || one.want == 1 && got[0].String() != owner.mac("eth0") {
					t.Errorf("%s who has %v: %v, %v", name, one.addr, got, err)
				}
			}
		}
		set(t, r, link(owner))
		if got, err := asker.Ask(t.Context(), subnet, addr(100), 3, 100*time.Millisecond); err != nil || len(got) > 0 {
			t.Errorf("after the claim is gone: %v, %v", got, err)
		}
	})
}

// family is what differs between IPv4 and IPv6 in a story.
type family struct {
	name      string
	addr      func(int) netip.Addr
	link      func(*host, ...netip.Addr) Config
	etherType uint16
}

var bothFamilies = []family{{"IPv4", addr4, (*host).link4, etherTypeARP}, {"IPv6", addr6, (*host).link6, etherTypeIPv6}}

func inBothFamilies(t *testing.T, story func(t *testing.T, f family)) {
	for _, f := range bothFamilies {
		t.Run(f.name, func(t *testing.T) { story(t, f) })
	}
}

func TestNUDWithoutItsOptionIsAnswered(t *testing.T) {
	lan := newLAN(t)
	owner, client := lan.host(1), lan.host(2)
	set(t, owner.responder(nil), owner.link6(addr6(100)))
	tap := client.tap("eth0", etherTypeIPv6)
	_, to := interfaceIn(t, owner.open, "eth0")
	frame := solicitation(to, tap.mac, client.v6(), addr6(100), addr6(100))
	frame = frame[:len(frame)-8]
	frame[19] = ndLength
	tap.mustSend(withChecksum(frame))
	answer := tap.next(5*time.Second, func(frame []byte, p packet) bool { return p.asserts == addr6(100) && MAC(frame[:6]) == tap.mac })
	if answer == nil {
		t.Fatal("no answer")
	}
	if flags := answer[58]; flags != flagSolicited|flagOverride {
		t.Errorf("flags %#x", flags)
	}
}

func TestDADOfAClaimFailsInAnotherKernel(t *testing.T) {
	lan := newLAN(t)
	owner, client := lan.host(1), lan.host(2)
	set(t, owner.responder(nil), owner.link6(addr6(100)))
	client.sysctl("net.ipv6.conf.eth0.accept_dad=1", "net.ipv6.conf.eth0.dad_transmits=1")
	client.ip("addr add " + addr6(100).String() + "/64 dev eth0")
	within(t, "DAD fails", func() string {
		if out := client.ip("-6 addr show dev eth0"); !strings.Contains(out, "dadfailed") {
			return out
		}
		return ""
	})
	client.ip("addr add " + addr6(101).String() + "/64 dev eth0")
	within(t, "DAD of another ends", func() string {
		if out := client.ip("-6 addr show dev eth0 to " + addr6(101).String()); strings.Contains(out, "tentative") || strings.Contains(out, "dadfailed") {
			return out
		}
		return ""
	})
}

func TestNeighborCacheFollowsAClaimThatMoves(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		lan := newLAN(t)
		first, second, client := lan.host(1), lan.host(2), lan.host(3)
		one, two := first.responder(nil), second.responder(nil)
		set(t, one, f.link(first, f.addr(100)))
		set(t, two, f.link(second))
		client.resolves(f.addr(100), first.mac("eth0"))
		set(t, one, f.link(first))
		began := time.Now()
		set(t, two, f.link(second, f.addr(100)))
		within(t, "the cache has the second", func() string {
			if got := client.neighbor(f.addr(100)); got != second.mac("eth0") {
				return got
			}
			return ""
		})
		t.Log("after", time.Since(began))
		set(t, two, f.link(second))
		set(t, one, f.link(first, f.addr(100)))
		within(t, "the cache has the first again", func() string {
			if got := client.neighbor(f.addr(100)); got != first.mac("eth0") {
				return got
			}
			return ""
		})
	})
}

func TestAfterTheDeadlineNothingIsSent(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		lan := newLAN(t)
		owner, client := lan.host(1), lan.host(2)
		var until atomic.Int64
		sniffer := owner.sniff()
		set(t, owner.responder(func(netip.Prefix) time.Duration { return time.Duration(until.Load()) }), f.link(owner, f.addr(100)))
		asker := client.responder(nil)
		set(t, asker, f.link(client))
		ask := func() []MAC {
			got, err := asker.Ask(t.Context(), f.link(client).Subnet, f.addr(100), 2, 150*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := ask(); len(got) > 0 || len(sniffer.saying(time.Time{}, f.addr(100))) > 0 {
			t.Error("before the deadline is set:", got, sniffer.saying(time.Time{}, f.addr(100)))
		}
		until.Store(int64(uptime.Now() + time.Hour))
		if got := ask(); len(got) != 1 {
			t.Error("before the deadline:", got)
		}
		within(t, "the announcement that waited", func() string {
			if len(sniffer.saying(time.Time{}, f.addr(100))) < 2 {
				return "none"
			}
			return ""
		})
		until.Store(int64(uptime.Now()))
		<-time.After(10 * time.Millisecond) // a frame that is being sent
		began := time.Now()
		if got := ask(); len(got) > 0 || len(sniffer.saying(began, f.addr(100))) > 0 {
			t.Error("after the deadline:", got, sniffer.saying(began, f.addr(100)))
		}
	})
}

func TestTwoInterfacesInOneLANAnswerWithOneMAC(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		lan := newLAN(t)
		owner, client := lan.host(1), lan.host(2)
		owner.plug("eth1")
		set(t, owner.responder(nil), f.link(owner, f.addr(100)))
		asker := client.responder(nil)
		set(t, asker, f.link(client))
		got, err := asker.AskAll(t.Context(), f.link(client).Subnet, f.addr(100), 5, 100*time.Millisecond)
		if err != nil || len(got) != 1 || got[0].String() != owner.mac("eth0") {
			t.Error(got, err)
		}
	})
}

// A machine that was off when it was asked for its MAC, for so long that it is asked once a minute, comes and takes a VIP. It is known
// as soon as its kernel has answered, for which that has as long as a processor lets it wait.
func TestWhoAnswersIsKnownToBeAMachineThatHasJustCome(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		lan := newLAN(t)
		asker, late := lan.host(1), lan.host(2)
		late.ip("link set eth0 down")
		c := f.link(asker)
		c.Watched, c.Machines = []netip.Addr{f.addr(100), f.addr(101)}, []netip.Addr{f.addr(2)}
		r := asker.responder(nil)
		set(t, r, c)
		within(t, "the machine is asked seldom", func() string {
			l := r.links[c.Subnet]
			l.mu.Lock()
			defer l.mu.Unlock()
			if m := l.machines[f.addr(2)]; m.attempts <= fastRetries {
				return fmt.Sprint(m.attempts, " questions")
			}
			return ""
		})
		late.comesUp("eth0")
		if f.name == "IPv6" {
			late.ip(fmt.Sprintf("addr replace %v/64 dev eth0 nodad", late.v6())) // it went with the carrier
		}
		set(t, late.responder(nil), f.link(late, c.Watched...))
		var asking sync.WaitGroup
		answered := make([]MAC, len(c.Watched))
		for i, vip := range c.Watched {
			asking.Go(func() {
				macs, err := r.Probe(t.Context(), c.Subnet, vip, 3, 100*time.Millisecond)
				if err != nil || len(macs) != 1 {
					t.Errorf("%v answer for %v: %v", macs, vip, err)
					return
				}
				answered[i] = macs[0]
			})
		}
		asking.Wait()
		for i, vip := range c.Watched {
			within(t, fmt.Sprintf("who answers for %v is no stranger", vip), func() string {
				if machine, known := r.Machine(c.Subnet, answered[i]); !known || machine != f.addr(2) {
					return fmt.Sprintf("%v is %v's, known: %t", answered[i], machine, known)
				}
				return ""
			})
		}
	})
}
