package onlink

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// judge is a pair of sockets, of which the kernel lets through what a program passes.
type judge struct{ in, out int }

func newJudge(t testing.TB) judge {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return judge{in: fds[0], out: fds[1]}
}

// passes has the kernel run a program on a frame.
func (j judge) passes(t interface{ Fatal(...any) }, p program, frame []byte) bool {
	if err := attach(j.out, p); err != nil {
		t.Fatal(len(p), "instructions:", err)
	}
	if err := unix.Sendto(j.in, frame, 0, nil); err != nil && !errors.Is(err, unix.EPERM) { // EPERM: the filter dropped it
		t.Fatal(err)
	}
	var b [maxFrame]byte
	n, _, err := unix.Recvfrom(j.out, b[:], 0)
	if err == nil && n != len(frame) {
		t.Fatal(n, "bytes of", len(frame))
	}
	return err == nil
}

func TestTheKernelPassesWhatALinkHasToHearAndNothingElse(t *testing.T) {
	j := newJudge(t)
	other4, other6 := netip.MustParseAddr("192.0.2.101"), netip.MustParseAddr("2001:db8:0:1::100")
	for _, c := range []struct {
		name  string
		frame []byte
		of    audible
		want  bool
	}{
		{"a request for a claim", question(macB, him4, vip4, MAC{}), audible{asked: []netip.Addr{vip4}}, true},
		{"a request for another", question(macB, him4, other4, MAC{}), audible{asked: []netip.Addr{vip4}}, false},
		{"a request for what is watched", question(macB, him4, vip4, MAC{}), audible{asserted: []netip.Addr{vip4}}, false},
		{"an announcement", announcement(macB, vip4), audible{asserted: []netip.Addr{him4, vip4}}, true},
		{"a request from a claim", question(macB, vip4, him4, MAC{}), audible{asserted: []netip.Addr{vip4}}, true},
		{"an answer", gratuitousReply(macB, vip4), audible{answered: []netip.Addr{vip4}}, true},
		{"a request from who is asked", question(macB, vip4, him4, MAC{}), audible{answered: []netip.Addr{vip4}}, false},
		{"an answer of another", gratuitousReply(macB, vip4), audible{answered: []netip.Addr{him4}}, false},
		{"a solicitation for a claim", question(macB, him6, vip6, MAC{}), audible{asked: []netip.Addr{him6, vip6}}, true},
		{"a solicitation for another of the same group", question(macB, him6, other6, MAC{}), audible{asked: []netip.Addr{vip6}}, false},
		{"a solicitation from a claim", question(macB, vip6, him6, MAC{}), audible{asserted: []netip.Addr{vip6}}, true},
		{"DAD for a claim", question(macB, no6, vip6, MAC{}), audible{asked: []netip.Addr{vip6}}, true},
		{"an advertisement for a claim", announcement(macB, vip6), audible{asserted: []netip.Addr{vip6}}, true},
		{"an advertisement of who is asked", announcement(macB, vip6), audible{answered: []netip.Addr{vip6}}, true},
		{"an advertisement of another", announcement(macB, vip6), audible{answered: []netip.Addr{him6}, asserted: []netip.Addr{him6}}, false},
		{"anything, and nothing is to be heard", announcement(macB, vip4), audible{}, false},
	} {
		ipv4 := c.frame[13] == 6
		if got := j.passes(t, filter(c.of, ipv4), c.frame); got != c.want {
			t.Errorf("%s: passed %v", c.name, got)
		}
	}
}

// drawAddrs are addresses of one subnet, sorted.
func drawAddrs(t *rapid.T, ipv4 bool, label string) []netip.Addr {
	addr := rapid.Custom(func(t *rapid.T) netip.Addr {
		host := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 0xffff)).Draw(t, "host")
		if ipv4 {
			return netip.AddrFrom4([4]byte{10, 77, byte(host >> 8), byte(host)})
		}
		return netip.AddrFrom16([16]byte{0: 0xfd, 9: byte(rapid.IntRange(0, 9).Draw(t, "group")), 14: byte(host >> 8), 15: byte(host)})
	})
	limit := rapid.SampledFrom([]int{5, 50, 2000}).Draw(t, "limit")
	all := rapid.SliceOfN(addr, 0, limit).Draw(t, label)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

func TestTheFilterNeverHidesWhatALinkHasToHear(t *testing.T) {
	j := newJudge(t)
	rapid.Check(t, func(t *rapid.T) {
		ipv4 := rapid.Bool().Draw(t, "ipv4")
		a := audible{asked: drawAddrs(t, ipv4, "asked"), asserted: drawAddrs(t, ipv4, "asserted"), answered: drawAddrs(t, ipv4, "answered")}
		probe := append(drawAddrs(t, ipv4, "probe"), slices.Concat(a.asked, a.asserted, a.answered)...)
		program := filter(a, ipv4)
		if len(program) > 4096 {
			t.Fatal(len(program), "instructions")
		}
		self := netip.MustParseAddr("fdff::1")
		if ipv4 {
			self = netip.MustParseAddr("10.99.0.1")
		}
		for _, addr := range probe[:min(len(probe), 30)] {
			has := func(all []netip.Addr) bool {
				_, found := slices.BinarySearchFunc(all, addr, netip.Addr.Compare)
				return found
			}
			if has(a.asked) && !j.passes(t, program, question(macB, self, addr, MAC{})) {
				t.Fatal("nobody hears who asks for", addr)
			}
			heard := j.passes(t, program, announcement(macB, addr))
			if has(a.asserted) && !heard {
				t.Fatal("nobody hears who has", addr)
			}
			if few := len(a.asked) <= 50 && len(a.asserted) <= 50 && len(a.answered) <= 50; few && ipv4 && heard && !has(a.asserted) && !has(a.asked) {
				t.Fatal("somebody wakes because of", addr)
			}
			answer := announcement(macB, addr)
			if ipv4 {
				answer = gratuitousReply(macB, addr)
			}
			if has(a.answered) && !j.passes(t, program, answer) {
				t.Fatal("nobody hears the answer of", addr)
			}
		}
	})
}

func TestRangesLeaveOutTheWidestGaps(t *testing.T) {
	v4 := func(hosts ...byte) (all []netip.Addr) {
		for _, h := range hosts {
			all = append(all, netip.AddrFrom4([4]byte{0, 0, 0, h}))
		}
		return all
	}
	for _, c := range []struct {
		addrs []netip.Addr
		limit int
		want  []span
	}{
		{nil, 3, nil},
		{v4(1, 2, 3), 3, []span{{1, 3}}},
		{v4(1, 3, 5), 3, []span{{1, 1}, {3, 3}, {5, 5}}},
		{v4(1, 3, 9, 11, 90), 3, []span{{1, 3}, {9, 11}, {90, 90}}},
		{v4(1, 3, 9, 11, 90), 2, []span{{1, 11}, {90, 90}}},
		{v4(1, 3, 9, 11, 90), 1, []span{{1, 90}}},
	} {
		if got := rangesOf(c.addrs, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%v in %d: got %v, want %v", c.addrs, c.limit, got, c.want)
		}
	}
}
