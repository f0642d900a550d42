//go:build privileged

package onlink

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestFuzzedFramesGetNoAnswerForWhatIsNotClaimed(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		lan := newLAN(t)
		owner, stranger := lan.host(1), lan.host(66)
		sniffer := owner.sniff()
		r := owner.responder(nil)
		set(t, r, f.link(owner, f.addr(100)))
		tap := stranger.tap("eth0", f.etherType)
		_, to := interfaceIn(t, owner.open, "eth0")
		random := rand.New(rand.NewPCG(1, 2))
		for range 20_000 {
			addr := func() netip.Addr { return f.addr([]int{1, 66, 100, 101, 255}[random.IntN(5)]) }
			frames := [][]byte{announcement(tap.mac, addr()), question(tap.mac, addr(), addr(), MAC{}), question(tap.mac, addr(), addr(), to)}
			frame := frames[random.IntN(len(frames))]
			for range random.IntN(3) {
				frame[12+random.IntN(len(frame)-12)] = byte(random.Uint32())
			}
			if f.name == "IPv6" && random.IntN(2) == 0 {
				withChecksum(frame)
			}
			_ = tap.send(frame[:len(frame)-random.IntN(2)*random.IntN(30)])
		}
		asker := lan.host(2)
		client := asker.responder(nil)
		set(t, client, f.link(asker))
		if got, err := client.Ask(t.Context(), f.link(asker).Subnet, f.addr(100), 10, time.Second); err != nil || len(got) == 0 {
			t.Error("no answer any more:", got, err)
		}
		sniffer.mu.Lock()
		defer sniffer.mu.Unlock()
		answers := 0
		for _, s := range sniffer.frames {
			if s.asserts == f.addr(100) {
				answers++
			} else if s.asserts.IsValid() && s.asserts != f.addr(1) && !s.asserts.IsLinkLocalUnicast() {
				t.Errorf("%x speaks of %v", s.frame, s.asserts)
			}
		}
		if answers < 100 {
			t.Error("only", answers, "answers: the frames were no questions")
		}
	})
}

func TestOnceSetHasReturnedWhatIsGoneIsSilent(t *testing.T) {
	inBothFamilies(t, func(t *testing.T, f family) {
		lan := newLAN(t)
		owner, client := lan.host(1), lan.host(2)
		sniffer, marker := owner.sniff(), owner.tap("eth0", f.etherType)
		r := owner.responder(nil)
		tap := client.tap("eth0", f.etherType)
		stop := make(chan struct{})
		var asking sync.WaitGroup
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
					_ = tap.send(question(tap.mac, f.addr(2), f.addr(100), MAC{}))
				}
			}
		})
		for round := range 20 {
			set(t, r, f.link(owner, f.addr(100)))
			within(t, "an answer", func() string {
				if len(sniffer.saying(time.Time{}, f.addr(100))) == 0 {
					return "none"
				}
				return ""
			})
			set(t, r, f.link(owner))
			within(t, "the marker", func() string {
				marker.mustSend(announcement(marker.mac, f.addr(200+round))) // what follows it was sent after Set
				if len(sniffer.saying(time.Time{}, f.addr(200+round))) == 0 {
					return "not seen"
				}
				return ""
			})
			sniffer.mu.Lock()
			past := false
			for _, s := range sniffer.frames {
				past = past || s.asserts == f.addr(200+round)
				if past && s.asserts == f.addr(100) {
					t.Errorf("round %d: %x after Set", round, s.frame)
				}
			}
			sniffer.frames = nil
			sniffer.mu.Unlock()
		}
		close(stop)
		asking.Wait()
	})
}

func TestASnoopingBridgeLearnsTheGroups(t *testing.T) {
	lan := newLAN(t)
	lan.ip("link set br0 type bridge mcast_snooping 1")
	owner := lan.host(1)
	r := owner.responder(nil)
	var claims []netip.Addr
	for n := range 150 { // more than one socket's
		claims = append(claims, addr6(50+n))
	}
	set(t, r, owner.link6(claims...))
	group := solicitedNode(addr6(60)).String()
	members := func() string { return run(t, "bridge", "-n", lan.ns, "mdb", "show", "dev", "br0") }
	within(t, "the bridge knows the group", func() string {
		if out := members(); !strings.Contains(out, "p1eth0 grp "+group) {
			return out
		}
		return ""
	})
	joined := func() int { return strings.Count(owner.ip("-6 maddr show dev eth0"), "ff02::1:ff") }
	if n := joined(); n < len(claims) {
		t.Errorf("%d groups of %d", n, len(claims))
	}
	set(t, r, owner.link6(claims[0]))
	if n := joined(); n > 4 {
		t.Errorf("%d groups are left", n)
	}
}

func TestEverythingAtOnce(t *testing.T) {
	lan := newLAN(t)
	owner := lan.host(1)
	owner.sysctl("net.ipv6.conf.eth0.keep_addr_on_down=1")
	r := owner.responder(nil)
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	var all sync.WaitGroup
	repeat := func(do func(i int)) {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				do(i)
			}
		})
	}
	repeat(func(i int) {
		links := []Config{owner.link4(addr4(100+i%3), addr4(110+i%5)), owner.link6(addr6(100 + i%4))}
		_ = r.Set(ctx, links[:i%3%2+1])
	})
	repeat(func(i int) { _, _ = r.Ask(ctx, subnet4, addr4(100), 1, time.Millisecond) })
	repeat(func(i int) { _, _ = r.Probe(ctx, subnet6, addr6(100), 1, time.Millisecond) })
	repeat(func(i int) { r.State() })
	flap := func(i int) { owner.ip(fmt.Sprintf("link set eth0 %s", []string{"down", "up"}[i%2])) }
	for i := 0; ctx.Err() == nil; i++ {
		flap(i)
	}
	all.Wait()
	flap(1)
	set(t, r, owner.link4(addr4(100)))
	lan.host(2).resolves(addr4(100), owner.mac("eth0"))
}
