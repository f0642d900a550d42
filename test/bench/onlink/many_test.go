package onlink

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/bench/results"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/procfs"
)

const (
	// many machines are as many as watch each other all with all.
	many = 32
	// restFor is for how long an agent is watched at rest, and restAfter how long nothing has happened by then:
	// claims are announced for four seconds.
	restFor, restAfter = 30 * time.Second, 15 * time.Second
	// longestGap is that of a VIP whose owner falls silent without a word.
	longestGap = 450 * time.Millisecond
)

// BenchmarkMany measures what one agent of 32 uses at rest, and the gap when a machine's power is cut.
func BenchmarkMany(b *testing.B) {
	if !isNamed(*stories, "many") {
		return
	}
	measured := results.New(1)
	needNeighbours(b, 4*many*many)
	home := lab.Home(many)
	home.IPv4Only = true // two families are two meshes, and all 32 agents share this machine's processors
	l := newStand(b, home)
	t := l.startInTurn(named{"plinth", &ours{l.Lab}}, measured.Of("plinth"))
	t.exposeAll(*vips)
	t.rest()
	t.cutOfMany()
	measured.Report(b)
}

// neighbourLimit is how many neighbours a kernel knows at most, of all its network namespaces together.
const neighbourLimit = "/proc/sys/net/ipv4/neigh/default/gc_thresh3"

// needNeighbours has the kernel know as many neighbours as machines that each have a kernel of their own: by
// default it knows 1,024, as many as 32 machines have, and others find nobody.
func needNeighbours(b *testing.B, n int) {
	b.Helper()
	text, err := os.ReadFile(neighbourLimit)
	if errors.Is(err, os.ErrNotExist) { // only the first namespace of the kernel has it
		fmt.Fprintf(os.Stderr, "%s is not to be seen from here: it has to be %d at least\n", neighbourLimit, n)
		return
	}
	check(b, err)
	before, err := strconv.Atoi(strings.TrimSpace(string(text)))
	check(b, err)
	if before >= n {
		return
	}
	check(b, os.WriteFile(neighbourLimit, fmt.Appendln(nil, n), 0))
	b.Cleanup(func() { _ = os.WriteFile(neighbourLimit, text, 0) })
}

// startInTurn starts each machine's agent once those before it know each other: the start of 32 at
// once is harder for the one machine below them than all that follows.
func (s *stand) startInTurn(c named, measured *results.Result) *turn {
	s.b.Helper()
	t := &turn{stand: s, named: c, services: map[netip.Addr]string{}, measured: measured}
	for i, m := range t.machineNames() {
		check(s.b, c.startOn(s.b.Context(), m))
		t.waitMesh(t.machineNames()[:i+1]...)
	}
	return t
}

// rest measures the agent of the machine with the most VIPs, and that of one without any.
func (t *turn) rest() {
	t.b.Helper()
	owners, before := t.settled(), t.losses()
	most, _ := busiest(owners)
	without := t.machineNames()[0]
	for _, m := range t.machineNames() {
		if countOf(owners, m) == 0 {
			without = m
		}
	}
	t.until(time.Now().Add(restAfter))
	begun := time.Now()
	clock := watchStalls(t.b.Context())
	busy, idle := t.usage(most), t.usage(without)
	t.until(begun.Add(restFor))
	for _, one := range []struct {
		what, machine string
		before        procfs.Usage
	}{{"busiest", most, busy}, {"without-VIPs", without, idle}} {
		now := t.usage(one.machine)
		cpu := ms(now.CPU-one.before.CPU) / time.Since(begun).Seconds()
		t.tell("agent of %s of %d machines, which owns %d of %d VIPs, at rest: %.1f ms of CPU a second, %.1f MB resident",
			one.machine, len(t.machineNames()), countOf(owners, one.machine), len(owners), cpu, now.Memory)
		t.measured.Add("ms-CPU-a-second-"+one.what, cpu)
		t.measured.Add("MB-"+one.what, now.Memory)
	}
	lost := t.lostSince(before)
	t.tell("%d sessions went down meanwhile; %s", lost, clock.within(begun, time.Now()))
	t.measured.Add("false-detections", float64(lost))
}

// usage is what a machine's agent has used so far.
func (t *turn) usage(machine string) procfs.Usage {
	t.b.Helper()
	u, err := procfs.Of(t.agent(machine).Pid)
	check(t.b, err)
	return u
}

// agent is the process of a machine's agent.
func (t *turn) agent(machine string) lab.Process {
	t.b.Helper()
	p, runs := t.Process("agent-" + machine)
	if !runs {
		t.b.Fatalf("no agent runs on %s", machine)
	}
	return p
}

// cutOfMany has one owner lose its power.
func (t *turn) cutOfMany() {
	t.b.Helper()
	owners := t.settled()
	vip := t.vips[0]
	gap, still, frames := t.cut(vip, owners)
	t.tell("%s of %d machines loses its power, owner of %s: gap %s, of which this machine stood still for %s; announcements: %s",
		owners[vip], len(t.machineNames()), vip, gap.Round(time.Millisecond), still.Round(time.Millisecond), frames)
	t.measured.Add("ms-gap-most", ms(gap))
	if net := gap - still; net > longestGap {
		t.b.Errorf("the gap was %s, %s without what this machine stood still: want %s at most", gap, net, longestGap)
	}
}
