package onlink

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/procfs"
)

const (
	fuzzed = 50_000 // frames
	// flooded frames a second are sent for floodFor.
	flooded      = 100_000
	floodFor     = 10 * time.Second
	floodSenders = 2 // one cannot send as many
	// claimEvery is how often a stranger claims every VIP, for claimFor.
	claimEvery = 100 * time.Millisecond
	claimFor   = 10 * time.Second
	// namedWithin is how soon a stranger is named.
	namedWithin = time.Second
)

// strangerMAC is no host's.
var strangerMAC = lab.MAC{0x02, 0x66, 0x66, 0x66, 0x66, 0x66}

// tagged is who asks in frames of a VLAN that nobody is in.
var tagged = lab.Dual{V4: netip.MustParseAddr("10.10.1.77"), V6: netip.MustParseAddr("2001:db8:10:1::77")}

// hostile has the phone send what no honest host does: no agent may end, none may answer for what is
// not its own, and whoever claims VIPs has to be named. Afterwards every VIP is answered for as before.
func (t *turn) hostile() {
	t.b.Helper()
	t.settled()
	pids := t.agents()
	sniffer, err := t.Sniff(t.b.Context(), t.machineNames()...)
	check(t.b, err)
	defer sniffer.Stop()
	wire, err := t.OpenWire(lab.Phone)
	check(t.b, err)
	defer wire.Close()

	random := rand.New(rand.NewPCG(*seed, 0))
	t.during("fuzzed frames", func() { t.fuzz(wire, random) })
	t.during("a flood of questions for addresses that nobody has", func() {
		t.flood(wire, netip.MustParseAddr("10.10.1.78"), netip.MustParseAddr("2001:db8:10:1::78"))
	})
	t.during("a flood of questions for VIPs", func() { t.flood(wire, t.vips...) })
	t.during("a stranger that claims every VIP", func() { t.claimAll(wire.As(strangerMAC, lab.Dual{})) })

	for _, p := range pids {
		if !p.Alive() {
			t.b.Errorf("%s ended", p.Name)
		}
	}
	owners := t.settled()
	t.honest(owners)
	t.judgeAnswers(sniffer)
}

// agents are the processes of all agents, in the inventory's order.
func (t *turn) agents() (all []lab.Process) {
	t.b.Helper()
	for _, m := range t.machineNames() {
		all = append(all, t.agent(m))
	}
	return all
}

// during says what agents use meanwhile.
func (t *turn) during(what string, f func()) {
	t.b.Helper()
	var before []procfs.Usage
	losses := t.losses()
	for _, m := range t.machineNames() {
		before = append(before, t.usage(m))
	}
	begun, clock := time.Now(), watchStalls(t.b.Context())
	f()
	took := time.Since(begun)
	for i, m := range t.machineNames() {
		now := t.usage(m)
		t.tell("%s: agent of %s: %.0f ms of CPU a second, %.1f MB resident, before %.1f", what, m,
			ms(now.CPU-before[i].CPU)/took.Seconds(), now.Memory, before[i].Memory)
	}
	still, lost := clock.within(begun, time.Now()), t.lostSince(losses)
	t.tell("%s: %s; sessions between machines went down %d times; %s", what, took.Round(time.Millisecond), lost, still)
}

// fuzz sends frames of ARP and neighbour discovery that are broken in every way.
func (t *turn) fuzz(wire *lab.Wire, random *rand.Rand) {
	targets := slices.Concat(t.vips, []netip.Addr{netip.MustParseAddr("10.10.1.78"), netip.MustParseAddr("2001:db8:10:1::78")})
	for _, m := range t.machineNames() {
		at := t.Topology.MachineAddress(m)
		targets = append(targets, at.V4, at.V6)
	}
	sent, refused := 0, 0
	for range fuzzed {
		if wire.Send(broken(wire, targets[random.IntN(len(targets))], random)) != nil {
			refused++ // by this host's kernel: too short for a header
			continue
		}
		sent++
	}
	t.tell("%d fuzzed frames sent, %d refused by the sender's kernel (seed %d)", sent, refused, *seed)
}

// broken is a frame about an address that was broken in one or several ways.
func broken(wire *lab.Wire, addr netip.Addr, random *rand.Rand) []byte {
	frame := [](func() []byte){
		func() []byte { return wire.Question(addr) },
		func() []byte { return wire.Announcement(addr) },
		func() []byte { return withTag(wire.As(strangerMAC, tagged).Question(addr), 0x8100, 5) },
		func() []byte {
			return withTag(withTag(wire.As(strangerMAC, tagged).Question(addr), 0x8100, 5), 0x88a8, 7)
		},
	}[random.IntN(4)]()
	for range random.IntN(3) {
		frame = breakages[random.IntN(len(breakages))](frame, random)
	}
	return frame
}

// withTag puts a tag of IEEE 802.1Q behind the addresses of a frame.
func withTag(frame []byte, kind, vlan uint16) []byte {
	tag := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, kind), vlan)
	return slices.Concat(frame[:12], tag, frame[12:])
}

// breakages each break a frame of Ethernet in one way.
var breakages = []func([]byte, *rand.Rand) []byte{
	func(b []byte, r *rand.Rand) []byte { return b[:r.IntN(len(b)+1)] }, // cut off
	func(b []byte, r *rand.Rand) []byte { return append(b, make([]byte, r.IntN(1400-min(1399, len(b))))...) },
	func(b []byte, r *rand.Rand) []byte { // any bytes behind the type
		for i := 14; i < len(b); i++ {
			b[i] = byte(r.Uint32())
		}
		return b
	},
	func(b []byte, r *rand.Rand) []byte { return set(b, 14+r.IntN(60), byte(r.Uint32())) },
	func(b []byte, r *rand.Rand) []byte { return set(set(b, 20, byte(r.IntN(2))), 21, byte(r.Uint32())) },  // ARP's opcode
	func(b []byte, r *rand.Rand) []byte { return set(set(b, 18, byte(r.Uint32())), 19, byte(r.Uint32())) }, // its lengths; IPv6's
	func(b []byte, r *rand.Rand) []byte { return set(b, 54, byte(133+r.IntN(5))) },                         // ICMPv6's type
	func(b []byte, r *rand.Rand) []byte { return set(b, 79, byte(r.IntN(4))) },                             // an option's length
}

// set changes a byte, where there is one.
func set(b []byte, at int, to byte) []byte {
	if at < len(b) {
		b[at] = to
	}
	return b
}

// flood sends questions for addresses in turn, as fast as it is to be, or as both of this machine's
// processors can.
func (t *turn) flood(wire *lab.Wire, addrs ...netip.Addr) {
	var frames [][]byte
	for _, addr := range addrs {
		frames = append(frames, wire.Question(addr))
	}
	begun := time.Now()
	var sent atomic.Int64
	var senders sync.WaitGroup
	for range floodSenders {
		senders.Go(func() {
			tick := time.NewTicker(50 * time.Microsecond)
			defer tick.Stop()
			n := 0
			for time.Since(begun) < floodFor {
				for due := int(time.Since(begun).Seconds() * flooded / floodSenders); n < due && time.Since(begun) < floodFor; n++ {
					_ = wire.Send(frames[n%len(frames)]) // what does not fit a queue is lost
				}
				<-tick.C
			}
			sent.Add(int64(n))
		})
	}
	senders.Wait()
	rate := float64(sent.Load()) / time.Since(begun).Seconds()
	t.tell("%d frames in %s: %.0f a second", sent.Load(), time.Since(begun).Round(time.Millisecond), rate)
	t.measured.Add("frames-a-second", rate)
}

// claimAll claims every VIP again and again, until every one's Service names the stranger.
func (t *turn) claimAll(wire *lab.Wire) {
	t.b.Helper()
	begun, clock := time.Now(), watchStalls(t.b.Context())
	tick := time.NewTicker(claimEvery)
	defer tick.Stop()
	took := map[netip.Addr]time.Duration{}
	for time.Since(begun) < claimFor || len(took) < len(t.vips) && time.Since(begun) < claimFor+patience {
		for _, vip := range t.vips {
			check(t.b, wire.Send(wire.Announcement(vip)))
			if took[vip] != 0 {
				continue
			}
			yes, err := t.names(t.b.Context(), t.services[vip], strangerMAC)
			check(t.b, err)
			if yes {
				took[vip] = time.Since(begun)
			}
		}
		<-tick.C
	}
	var longest time.Duration
	for _, d := range took {
		longest = max(longest, d)
	}
	t.tell("a stranger claims all %d VIPs: %d Services name %s, the last after %s", len(t.vips), len(took), strangerMAC, longest.Round(time.Millisecond))
	t.measured.Add("ms-last-named", ms(longest))
	if len(took) < len(t.vips) {
		t.b.Errorf("%d of %d Services do not name %s", len(t.vips)-len(took), len(t.vips), strangerMAC)
	}
	still := time.Duration(clock.within(begun, begun.Add(longest)))
	if limit := namedWithin + claimEvery + still; longest > limit {
		t.b.Errorf("the last Service named the stranger after %s: want %s at most", longest, limit)
	}
	t.namedByAgents()
}

// namedByAgents looks for the stranger in what the agents say.
func (t *turn) namedByAgents() {
	t.b.Helper()
	named := map[string]bool{}
	for _, m := range t.machineNames() {
		links, err := t.Links(t.b.Context(), m)
		check(t.b, err)
		for _, l := range links {
			for _, v := range l.VIPs {
				named[v.VIP] = named[v.VIP] || v.Conflict == strangerMAC.String()
			}
		}
	}
	for _, vip := range t.vips {
		if !named[vip.String()] {
			t.b.Errorf("no agent's /status names %s with %s", strangerMAC, vip)
		}
	}
}

// honest is a client that knows nothing yet: every VIP has to answer it.
func (t *turn) honest(owners map[netip.Addr]string) {
	t.b.Helper()
	ctx := t.b.Context()
	check(t.b, t.ForgetNeighbours(ctx, lab.Laptop))
	served := 0
	for _, vip := range t.vips {
		p, err := t.ProbeUDPFrom(ctx, lab.Laptop, net.JoinHostPort(vip.String(), "7"), 50)
		check(t.b, err)
		if err := p.Steady(ctx, time.Second); err != nil {
			t.b.Errorf("%s, which %s answers for: %v", vip, owners[vip], err)
		} else {
			served++
		}
		p.Stop()
	}
	t.tell("an honest client afterwards: %d of %d VIPs answer and serve", served, len(t.vips))
}

// judgeAnswers looks at all that machines said to be theirs.
func (t *turn) judgeAnswers(s *lab.Sniffer) {
	t.b.Helper()
	own := map[string][]netip.Addr{}
	for _, m := range t.machineNames() {
		addrs, err := t.Addresses(m)
		check(t.b, err)
		own[m] = addrs
	}
	answers, wrong := 0, map[string]int{}
	for _, f := range s.Frames(func(f lab.Frame) bool { return f.Kind.Answers() }) {
		answers++
		switch {
		case f.Asker == tagged.V4 || f.Asker == tagged.V6:
			wrong[fmt.Sprintf("%s answered a question of another VLAN for %s", f.Host, f.Address)]++
		case !slices.Contains(t.vips, f.Address) && !slices.Contains(own[f.Host], f.Address):
			wrong[fmt.Sprintf("%s answered for %s, which is not its own", f.Host, f.Address)]++
		}
	}
	t.tell("%d answers and announcements of machines, %d kinds of them wrong", answers, len(wrong))
	for what, n := range wrong {
		t.b.Errorf("%s %d times", what, n)
	}
}
