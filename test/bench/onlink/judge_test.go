package onlink

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/test/lab"
)

const (
	// detect is how long a machine that falls silent counts as there.
	detect = 300 * time.Millisecond
	// answersLate is how much longer it takes until another one answers: its last packet is up to an interval
	// old by then, and its kernel is asked.
	answersLate = 150 * time.Millisecond
	// joins is how long two machines take to know that they see each other (RFC 5880, section 6.8.3), and
	// looks how long a VIP is looked for of which nothing is known.
	joins = 1500 * time.Millisecond
	looks = 300 * time.Millisecond
	// carefulLimit is how long a minority that sees the gateway takes, and carefulEvery how often it looks
	// whether nobody else answers.
	carefulLimit = 2 * time.Second
	carefulEvery = time.Second
)

// law says for how long nobody may answer somewhere; the zero value: for ever.
type law struct {
	name  string
	limit time.Duration
}

// The laws, by what holds where the question was asked.
var (
	noLaw       = law{}
	majorityLaw = law{"a majority", detect + answersLate}
	joinedLaw   = law{"a majority that has just come together", joins + detect + looks + answersLate}
	minorityLaw = law{"a minority with the gateway", carefulLimit}
	ownerLaw    = law{"one owner", detect}
	mergedLaw   = law{"one owner of two sides that each had one", carefulEvery + looks}
)

// judge judges what was answered while a cut lasted.
type judge struct {
	machines []string // in the inventory's order
	hosts    []string // of the subnet, all
	every    time.Duration
	still    func(from, to time.Time) time.Duration // that this machine stood still
	was, is  cutting
	// resumed are machines that went on when the cut began.
	resumed map[string]bool
	// owner is who answered last before, by VIP.
	owner map[netip.Addr]string
}

// finding is the longest time in which too many answered somewhere, or nobody.
type finding struct {
	place    string
	vip      netip.Addr
	two      bool // else nobody
	from, to time.Time
	net      time.Duration // without what this machine stood still, and the distance of questions
	law      law
	owners   []string
}

func (f finding) broken() bool { return f.law != noLaw && f.net > f.law.limit }

func (f finding) String() string {
	what := "nobody answered"
	if f.two {
		what = strings.Join(f.owners, " and ") + " answered"
	}
	text := fmt.Sprintf("%s: %s for %s at %s for %s (%s net)", f.from.Format("15:04:05.000"), what, f.vip, f.place,
		f.to.Sub(f.from).Round(time.Millisecond), f.net.Round(time.Millisecond))
	if f.law != noLaw {
		text += fmt.Sprintf(", want %s at most: %s", f.law.limit, f.law.name)
	}
	return text
}

// answered is a question with the hosts that answered it.
type answered struct {
	at     time.Time
	owners []string
}

// twoLaw is the law of two owners at a place: where a cut is not transitive there is none.
func (j judge) twoLaw(place string) law {
	switch {
	case !j.is.isTransitive(j.hosts):
		return noLaw
	case j.merges(j.machinesOf(j.is.side(place, j.hosts), j.is)):
		return mergedLaw
	}
	return ownerLaw
}

// merges reports whether these machines come from more than one side that served before: a majority that did
// not see the gateway, and a minority that did, both do.
func (j judge) merges(now []string) bool {
	if !j.was.isTransitive(j.hosts) {
		return true
	}
	served := map[string]bool{} // by their first machine
	for _, m := range now {
		side := j.was.side(m, j.hosts)
		able := j.machinesOf(side, j.was)
		if len(able) > 0 && (j.isMajority(able) || slices.Contains(side, lab.HomeGateway)) {
			served[able[0]] = true
		}
	}
	return len(served) > 1
}

// noneLaw is the law of no owner at a place for a VIP.
func (j judge) noneLaw(place string, vip netip.Addr) law {
	side := j.is.side(place, j.hosts)
	able := j.machinesOf(side, j.is)
	switch {
	case !j.is.isTransitive(j.hosts), len(able) == 0, j.is.suspended[j.owner[vip]]:
		return noLaw // who follows waits for an agent that is away, while its machine answers
	case j.isMajority(able) && j.wereTogether(able):
		return majorityLaw
	case j.isMajority(able):
		return joinedLaw
	case slices.Contains(side, lab.HomeGateway):
		return minorityLaw
	}
	return noLaw
}

// machinesOf are those of hosts whose agents run.
func (j judge) machinesOf(hosts []string, c cutting) []string {
	return slices.DeleteFunc(slices.Clone(j.machines), func(m string) bool {
		return !slices.Contains(hosts, m) || c.suspended[m] || c.frozen[m]
	})
}

// isMajority reports whether machines are more than half, or the half with the first.
func (j judge) isMajority(of []string) bool {
	return 2*len(of) > len(j.machines) || 2*len(of) == len(j.machines) && slices.Contains(of, j.machines[0])
}

// wereTogether reports whether enough of the machines for a majority saw each other before.
func (j judge) wereTogether(now []string) bool {
	if !j.was.isTransitive(j.hosts) {
		return false
	}
	for _, m := range now {
		before := j.machinesOf(j.was.side(m, j.hosts), j.was)
		before = slices.DeleteFunc(before, func(b string) bool { return !slices.Contains(now, b) || j.resumed[b] })
		if j.isMajority(before) && !slices.ContainsFunc(now, func(n string) bool { return j.resumed[n] }) {
			return true
		}
	}
	return false
}

// longest are the longest time of two owners and that of none at a place, for a VIP, from the begin of the
// cut to its end.
func (j judge) longest(place string, vip netip.Addr, asked []answered, from, to time.Time) (two, none finding) {
	two = finding{place: place, vip: vip, two: true, from: from, to: from, law: j.twoLaw(place)}
	none = finding{place: place, vip: vip, from: from, to: from, law: j.noneLaw(place, vip)}
	twice, silent := time.Time{}, from
	var owners []string
	for i, a := range asked {
		if len(a.owners) > 1 {
			if twice.IsZero() {
				twice, owners = a.at, a.owners
			}
			j.stretch(&two, twice, a.at, 0, owners)
		} else {
			twice = time.Time{}
		}
		switch {
		case len(a.owners) > 0:
			j.stretch(&none, silent, a.at, j.every, nil)
			silent = a.at
		case i == len(asked)-1:
			j.stretch(&none, silent, to, j.every, nil)
		}
	}
	return two, none
}

func (j judge) stretch(f *finding, from, to time.Time, allowed time.Duration, owners []string) {
	if net := to.Sub(from) - j.still(from, to) - allowed; net > f.net {
		f.from, f.to, f.net, f.owners = from, to, net, owners
	}
}
