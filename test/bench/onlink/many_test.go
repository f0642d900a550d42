package onlink

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/lb/mesh"
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

// BenchmarkMany measures what one agent of a subnet of 32 machines uses at rest, and, where all of them have an agent, the gap
// when a machine's power is cut. 32 agents are more than two processors carry; machines without one watch all others as an
// agent does, and own nothing.
func BenchmarkMany(b *testing.B) {
	if !isNamed(*stories, "many") {
		return
	}
	if *agents < 1 || *agents > many {
		b.Fatalf("-agents=%d: want 1 to %d", *agents, many)
	}
	measured := results.New(1)
	needNeighbours(b, 4*many*many)
	home := lab.Home(many)
	home.IPv4Only = true // two families are two meshes, and all 32 machines share this one's processors
	l := newStand(b, home)
	t := l.startMany(named{"plinth", &ours{l.Lab}}, measured.Of("plinth"))
	t.exposeAll(*vips)
	t.rest()
	if len(t.agentsOn) == many {
		t.cutOfMany()
	}
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

// startMany has most machines only watch each other, and then starts an agent on each other one once those before it know all
// who are there: the start of many at once is harder for the one machine below them than all that follows.
func (s *stand) startMany(c named, measured *results.Result) *turn {
	s.b.Helper()
	t := &turn{stand: s, named: c, services: map[netip.Addr]string{}, measured: measured}
	names := t.machineNames()
	if *agents < len(names) {
		t.home = names[0] // no other machine is to own what it cannot serve
	}
	var addresses []string
	for _, name := range names {
		addresses = append(addresses, s.Topology.MachineAddress(name).V4.String())
	}
	program, err := os.Executable()
	check(s.b, err)
	for i := *agents; i < len(names); i++ {
		_, err := s.Run(names[i], "watcher-"+names[i], program, "-watcher="+strings.Join(append([]string{addresses[i]}, addresses...), ","))
		check(s.b, err)
	}
	for i := range *agents {
		check(s.b, c.startOn(s.b.Context(), names[i]))
		t.agentsOn = names[:i+1]
		t.waitUp(len(names)-*agents+i, t.agentsOn...)
	}
	return t
}

// watch is a machine that watches others until it is told to end. addresses are its own and those of all.
func watch(addresses string) {
	var c mesh.Config
	for i, text := range strings.Split(addresses, ",") {
		addr := netip.MustParseAddr(text)
		if i == 0 {
			c.Self, c.Subnet = addr, netip.PrefixFrom(addr, 24).Masked()
			continue
		}
		c.Machines = append(c.Machines, mesh.Machine{Name: text, Addr: addr})
	}
	m := mesh.New(mesh.Options{})
	if err := m.Set(context.Background(), []mesh.Config{c}); err != nil {
		panic(err)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	m.Close(context.Background(), 0)
}

// rest measures the agent of the machine with the most VIPs, and that of one without any.
func (t *turn) rest() {
	t.b.Helper()
	owners, before := t.settled(), t.losses()
	most, _ := busiest(owners)
	type watched struct {
		what, machine string
		before        procfs.Usage
	}
	all := []watched{{what: "busiest", machine: most}}
	if i := slices.IndexFunc(t.agentsOn, func(m string) bool { return countOf(owners, m) == 0 }); i >= 0 {
		all = append(all, watched{what: "without-VIPs", machine: t.agentsOn[i]})
	}
	t.until(time.Now().Add(restAfter))
	begun := time.Now()
	clock := watchStalls(t.b.Context())
	for i := range all {
		all[i].before = t.usage(all[i].machine)
	}
	t.until(begun.Add(restFor))
	for _, one := range all {
		now := t.usage(one.machine)
		cpu := ms(now.CPU-one.before.CPU) / time.Since(begun).Seconds()
		t.tell("agent of %s of %d machines, %d of them with one, which owns %d of %d VIPs, at rest: %.1f ms of CPU a second, %.1f MB resident",
			one.machine, len(t.machineNames()), len(t.agentsOn), countOf(owners, one.machine), len(owners), cpu, now.Memory)
		t.measured.Add("ms-CPU-a-second-"+one.what, cpu)
		t.measured.Add("MB-"+one.what, now.Memory)
	}
	lost := t.lostSince(before)
	t.tell("%d sessions of these agents went down meanwhile; %s", lost, clock.within(begun, time.Now()))
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
