package advertise

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// lan is a segment of several machines on a clock of its own. Who is in the same group sees and hears each
// other; of others a machine knows after the detection time. The clocks of any two machines differ by hours.
type lan struct {
	t       interface{ Fatalf(string, ...any) }
	now     time.Duration
	ahead   map[string]time.Duration // the clock of each machine
	leaks   map[[2]int]bool          // from one group into another, where nothing comes back
	names   []string
	active  map[string]bool             // by the newest inventory
	read    map[string]map[string]bool  // by the inventory that each machine knows
	reads   map[string]time.Duration    // when each learns of the newest
	group   map[string]int              // 0: of the witness
	apart   map[[2]string]bool          // besides; both ways
	frozen  map[string]bool             // whole machines
	stopped map[string]time.Duration    // agents that are suspended, since when: their machines' kernels answer
	parted  map[[2]string]time.Duration // since when two machines cannot reach each other
	thawed  map[string]time.Duration
	missed  map[string]Standing // of the others to one that was thawed, after a detection time, until they have come up
	dead    map[string]bool
	leaving map[string]bool
	heal    map[[2]string]time.Duration // since when two are in the same group; missing: they are not
	cut     map[[2]string]time.Duration
	begun   map[string]time.Duration
	brains  map[string]*Succession
	claims  map[string][]netip.Addr
	said    map[string]Step                         // last
	probes  map[string]map[netip.Addr]time.Duration // when they end
	vips    []LinkVIP
	knows   map[string][]LinkVIP // by machine, until it learns of other homes
	learns  map[string]time.Duration
	moves   int
	owner   map[netip.Addr]string
	witness bool
	joins   time.Duration               // until BFD is up
	upAfter map[[2]string]time.Duration // in place of joins
	doubled time.Duration               // how long two answered in one group, the longest
	twice   time.Duration
	nobody  time.Duration // how long nobody did where somebody was to, the longest
	absent  time.Duration
}

const (
	tick   = 20 * time.Millisecond
	detect = 300 * time.Millisecond
	joins  = 1500 * time.Millisecond // until BFD is up, at most
)

func newLAN(t interface{ Fatalf(string, ...any) }, machines, vips int, witness bool) *lan {
	l := &lan{
		t: t, now: time.Hour, ahead: map[string]time.Duration{}, active: map[string]bool{}, read: map[string]map[string]bool{}, reads: map[string]time.Duration{}, group: map[string]int{}, frozen: map[string]bool{}, stopped: map[string]time.Duration{}, parted: map[[2]string]time.Duration{}, thawed: map[string]time.Duration{}, missed: map[string]Standing{}, dead: map[string]bool{}, leaving: map[string]bool{}, heal: map[[2]string]time.Duration{},
		cut: map[[2]string]time.Duration{}, begun: map[string]time.Duration{}, brains: map[string]*Succession{}, claims: map[string][]netip.Addr{}, said: map[string]Step{},
		probes: map[string]map[netip.Addr]time.Duration{}, owner: map[netip.Addr]string{}, witness: witness, knows: map[string][]LinkVIP{}, learns: map[string]time.Duration{}, joins: joins,
	}
	for i := range machines {
		name := fmt.Sprintf("m%d", i+1)
		l.names, l.active[name] = append(l.names, name), true
		l.ahead[name] = time.Duration(i*(7-2*i)) * time.Hour
		l.start(name)
	}
	var homes []Home
	for i := range vips {
		homes = append(homes, Home{VIP: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})})
	}
	for vip, h := range Homes(l.names, homes) {
		l.vips = append(l.vips, LinkVIP{VIP: vip, Homes: h, Served: true})
	}
	slices.SortFunc(l.vips, func(a, b LinkVIP) int { return a.VIP.Compare(b.VIP) })
	l.regroup(l.group)
	return l
}

func (l *lan) start(name string) {
	l.brains[name], l.begun[name], l.claims[name], l.probes[name] = NewSuccession(nil), l.now, nil, map[netip.Addr]time.Duration{}
}

// rehome has one VIP's homes be others, of which each machine learns at a time of its own.
func (l *lan) rehome(which int, learns func() time.Duration) {
	l.vips = slices.Clone(l.vips)
	homes := slices.Clone(l.vips[which].Homes)
	l.vips[which].Homes = append(homes[1:], homes[0])
	for _, name := range l.names {
		l.learns[name] = learns()
	}
}

// pinAtRandom pins some VIPs to machines.
func (l *lan) pinAtRandom(t *rapid.T) {
	for i := range l.vips {
		if v := &l.vips[i]; rapid.IntRange(0, 2).Draw(t, "pinned") == 0 {
			home := rapid.SampledFrom(l.names).Draw(t, "to")
			v.Homes, v.Pinned = slices.Insert(slices.DeleteFunc(slices.Clone(v.Homes), func(name string) bool { return name == home }), 0, home), true
		}
	}
}

// edit has other machines be active, of which each machine learns at a time of its own.
func (l *lan) edit(active map[string]bool, learns func() time.Duration) {
	l.active = active
	for _, name := range l.names {
		l.reads[name] = learns()
	}
}

func (l *lan) together(a, b string) bool {
	return l.runs(a) && l.runs(b) && l.group[a] == l.group[b] && !l.apart[[2]string{a, b}]
}

func (l *lan) runs(name string) bool { return l.stopped[name] == 0 && l.isOn(name) }

// isStill reports whether a machine stands still, or its agent.
func (l *lan) isStill(name string) bool { return l.frozen[name] || l.stopped[name] != 0 }

// isOn reports whether the kernel of a machine answers.
func (l *lan) isOn(name string) bool { return !l.dead[name] && !l.frozen[name] }

func (l *lan) reach(a, b string) bool {
	return l.isOn(a) && l.isOn(b) && l.group[a] == l.group[b] && !l.apart[[2]string{a, b}]
}

// regroup takes in who is with whom.
func (l *lan) regroup(group map[string]int) {
	l.group = group
	for _, a := range l.names {
		for _, b := range l.names {
			pair := [2]string{a, b}
			if l.reach(a, b) {
				delete(l.parted, pair)
			} else if l.parted[pair] == 0 {
				l.parted[pair] = l.now
			}
			_, were := l.heal[pair]
			switch is := l.together(a, b); {
			case is && !were:
				l.heal[pair] = l.now
				delete(l.cut, pair)
			case !is && were:
				delete(l.heal, pair)
				l.cut[pair] = l.now
			}
		}
	}
}

// cutAtRandom parts the machines into groups, and some pairs besides, and has some machines stand still or go on. Two
// that see each other again know it after a time of their own.
func (l *lan) cutAtRandom(t *rapid.T) {
	group := map[string]int{}
	l.apart, l.upAfter = map[[2]string]bool{}, map[[2]string]time.Duration{}
	isCutBetween := rapid.Bool().Draw(t, "between machines")
	for i, a := range l.names {
		group[a] = rapid.IntRange(0, 2).Draw(t, "group")
		for _, b := range l.names[:i] {
			after := time.Duration(rapid.IntRange(0, int(joins/time.Millisecond)).Draw(t, "up after")) * time.Millisecond
			l.upAfter[[2]string{a, b}], l.upAfter[[2]string{b, a}] = after, after
			if isCutBetween && rapid.IntRange(0, 3).Draw(t, "apart") == 0 {
				l.apart[[2]string{a, b}], l.apart[[2]string{b, a}] = true, true
			}
		}
		switch stands := rapid.IntRange(0, 8).Draw(t, "stands still"); {
		case stands == 0:
			l.frozen[a] = true
			delete(l.stopped, a)
		case stands == 1 && !l.frozen[a] && l.stopped[a] == 0:
			l.stopped[a] = l.now
		case l.isStill(a):
			l.thaw(a)
			l.missed[a] = rapid.SampledFrom([]Standing{Up, Holding, Down}).Draw(t, "missed")
		}
	}
	l.regroup(group)
}

func (l *lan) thaw(name string) {
	delete(l.frozen, name)
	delete(l.stopped, name)
	l.thawed[name], l.missed[name] = l.now, Up
}

// holds reports whether a machine takes it that another one's agent is away for a moment: it asks the other's kernel,
// once a second.
func (l *lan) holds(self, other string) bool {
	pair := [2]string{self, other}
	if l.stopped[other] == 0 || l.cut[pair] != l.stopped[other] || l.begun[self] >= l.stopped[other] {
		return false // else its session was up until the agent stopped
	}
	parted := l.parted[pair]
	return parted == 0 || parted >= l.stopped[other]+detect && l.now < parted+careful
}

func (l *lan) standing(self, other string) Standing {
	pair := [2]string{self, other}
	since, together := l.heal[pair]
	since = max(since, l.begun[self], l.begun[other])
	joins := l.joins
	if after, known := l.upAfter[pair]; known {
		joins = after
	}
	switch {
	case self == other && l.leaving[self]:
		return Leaving
	case self == other:
		return Up
	case together && l.thawed[self] == since && l.now-since < max(detect, joins): // what it sees at first does not count
		if l.now-since < detect {
			return Up
		}
		return l.missed[self]
	case together && l.now-since < joins && l.now-l.begun[self] < joins:
		return Unheard
	case together && l.now-since < joins:
		return Down
	case together && l.leaving[other]:
		return Leaving
	case together, l.cut[pair] != 0 && l.now-l.cut[pair] < detect && l.begun[self] < l.cut[pair]:
		return Up
	case l.holds(self, other):
		return Holding
	case l.now-l.begun[self] < l.joins:
		return Unheard
	}
	return Down
}

func (l *lan) segment(self string) Segment {
	seg := Segment{Self: self, Resumed: l.thawed[self] + l.ahead[self]}
	for _, name := range l.names {
		seg.Machines = append(seg.Machines, Neighbor{name, l.read[self][name], l.standing(self, name)})
	}
	if l.witness {
		seg.Witness = WitnessSilent
		if l.group[self] == 0 {
			seg.Witness = WitnessAnswers
		}
	}
	return seg
}

// mayAnswer reports whether a machine that stood still may answer again: it waits for the word of another one that it
// is heard, or until it has seen for long enough that there is none.
func (l *lan) mayAnswer(name string) bool {
	thawed, was := l.thawed[name]
	if !was || l.now-thawed >= max(joins, careful) {
		return true
	}
	anyUp := false
	for _, other := range l.names {
		if other != name && l.together(name, other) && l.standing(other, name) == Up {
			return true
		}
		anyUp = anyUp || other != name && l.standing(name, other) == Up
	}
	return !anyUp && (l.now-thawed >= careful || l.witness && l.group[name] == 0)
}

func (l *lan) claimants(vip netip.Addr, with string) (out []string) {
	for _, name := range l.names {
		if l.together(with, name) && slices.Contains(l.claims[name], vip) && l.mayAnswer(name) {
			out = append(out, name)
		}
	}
	return out
}

func (l *lan) step(name string) {
	b := l.brains[name]
	for vip, ends := range l.probes[name] {
		if l.now < ends {
			continue
		}
		delete(l.probes[name], vip)
		others := slices.DeleteFunc(l.claimants(vip, name), func(o string) bool { return o == name })
		found := Found{}
		if len(others) > 0 {
			found.Machine = others[0]
		}
		if b.Probed(l.at(name), vip, found) {
			l.announce(name, vip)
		}
	}
	if l.learns[name] <= l.now {
		l.knows[name] = l.vips
	}
	if l.reads[name] <= l.now {
		l.read[name] = l.active
	}
	out := b.Step(l.at(name), l.segment(name), l.knows[name])
	for _, vip := range out.Probes {
		l.probes[name][vip] = l.now + detect
	}
	for _, vip := range out.Claims {
		if !slices.Contains(l.claims[name], vip) || slices.Contains(out.Again, vip) {
			l.announce(name, vip)
		}
	}
	l.claims[name], l.said[name] = out.Claims, out
}

// at is the time by the clock of a machine.
func (l *lan) at(name string) time.Duration { return l.now + l.ahead[name] }

// announce has all others hear a claim.
func (l *lan) announce(name string, vip netip.Addr) {
	if l.owner[vip] != name {
		l.owner[vip] = name
		l.moves++
	}
	for _, other := range l.names {
		if other == name || !l.together(name, other) && !l.leaksTo(name, other) {
			continue
		}
		if !l.brains[other].Heard(l.at(other), vip, name) || !slices.Contains(l.claims[other], vip) {
			continue
		}
		for _, third := range l.names { // it goes on, and says so to everybody
			if third != other && l.together(other, third) {
				l.brains[third].Heard(l.at(third), vip, other)
			}
		}
	}
}

// leaksTo reports whether another machine hears one that does not hear it.
func (l *lan) leaksTo(name, other string) bool {
	return l.runs(name) && l.runs(other) && l.leaks[[2]int{l.group[name], l.group[other]}]
}

func (l *lan) run(d time.Duration) {
	for end := l.now + d; l.now < end; l.now += tick {
		for _, name := range l.names {
			if l.runs(name) {
				l.step(name)
			}
		}
		l.observe()
	}
}

// observe measures how long two answer on one side of a cut, and nobody where somebody is to.
func (l *lan) observe() {
	two, none := false, false
	for _, v := range l.vips {
		for _, name := range l.names {
			if !l.runs(name) {
				continue
			}
			n := len(l.claimants(v.VIP, name))
			two = two || n > 1
			none = none || n == 0 && l.isToServe(name)
		}
	}
	grow := func(since *time.Duration, longest *time.Duration, on bool) {
		if !on {
			*since = 0
			return
		}
		if *since == 0 {
			*since = l.now
		}
		*longest = max(*longest, l.now-*since+tick)
	}
	grow(&l.twice, &l.doubled, two)
	grow(&l.absent, &l.nobody, none)
}

// isToServe reports whether the group of a machine is to have an owner of each VIP.
func (l *lan) isToServe(name string) bool {
	seg := Segment{Self: name, Witness: l.segment(name).Witness}
	for _, other := range l.names {
		s := Down
		if l.together(name, other) {
			s = Up
		}
		seg.Machines = append(seg.Machines, Neighbor{other, l.active[other], s})
	}
	able := slices.ContainsFunc(seg.Machines, func(m Neighbor) bool { return m.Active && m.Standing == Up })
	return able && seg.Quorum() != NoQuorum
}

func (l *lan) owners() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, v := range l.vips {
		for _, name := range l.names {
			if !l.dead[name] && slices.Contains(l.claims[name], v.VIP) {
				out[v.VIP] += name + " "
			}
		}
	}
	return out
}
