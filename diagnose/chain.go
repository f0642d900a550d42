package diagnose

import (
	"fmt"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
)

// Mark is the state of a link of a chain.
type Mark string

// The marks of links.
const (
	LinkOK       Mark = "ok"
	LinkDegraded Mark = "degraded" // it holds, and not everywhere
	LinkBroken   Mark = "broken"
	LinkUnknown  Mark = "unknown" // it could not be asked
	LinkNotAsked Mark = "unasked" // a link before it is broken
)

// Link is one step from the desired state to the packets on the wire.
type Link struct {
	Step   string `json:"step"`
	Mark   Mark   `json:"mark"`
	Reason string `json:"reason,omitempty"` // as in docs/reference/reasons.md
	Text   string `json:"text,omitempty"`
	Help   string `json:"help,omitempty"` // what would mend it
}

// Chain is the dependencies of one thing, in the order in which they are examined.
type Chain struct {
	What  string `json:"what"`
	Links []Link `json:"links"`
	// Ask are Nodes whose agents have to be asked for the rest; none: there is nothing more to ask.
	Ask []string `json:"-"`
}

// Fault returns the first link that does not hold, if any; where all that are known hold, the first that is not known.
func (c Chain) Fault() (fault Link, found bool) {
	for _, known := range []bool{true, false} {
		for _, l := range c.Links {
			if l.Mark != LinkOK && known == (l.Mark != LinkUnknown) {
				return l, true
			}
		}
	}
	return fault, false
}

// Well reports whether every link holds.
func (c Chain) Well() bool {
	_, found := c.Fault()
	return !found
}

// builder adds links until one is broken; those after that are not asked.
type builder struct {
	chain  Chain
	broken bool
}

// link adds a step and judges it, unless one before it is broken.
func (b *builder) link(step string, judge func() Link) {
	link := Link{Mark: LinkNotAsked}
	if !b.broken {
		link = judge()
	}
	link.Step = step
	b.broken = b.broken || link.Mark == LinkBroken
	b.chain.Links = append(b.chain.Links, link)
}

func ok(format string, args ...any) Link {
	return Link{Mark: LinkOK, Text: fmt.Sprintf(format, args...)}
}

// broken is a link that does not hold, for a reason that has a name or for none.
func broken[R ~string](reason R, help, format string, args ...any) Link {
	return Link{Mark: LinkBroken, Reason: string(reason), Help: help, Text: fmt.Sprintf(format, args...)}
}

// noReason is for what has no name.
const noReason = ""

// nearer returns the reason, of two that have a name, of the machine that comes nearer to announcing a VIP.
func nearer(a, b lb.Reason) lb.Reason {
	if b == noReason || a != noReason && preview.Nearer(a, b) < 0 {
		return a
	}
	return b
}

// mostAsked is how many agents are asked for one chain: enough to tell a machine's fault from
// everybody's.
const mostAsked = 8
