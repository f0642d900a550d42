package advertise

import "time"

// incumbent is the machine that answers for a VIP, as far as this one knows.
type incumbent struct {
	name     string        // empty: none is known
	up       bool          // it was seen to be up, and not only to answer
	heir     bool          // it is to follow another one, and was not heard yet: it may have ended before it did
	unsure   bool          // this machine was cut off: the incumbent may have left the VIP to another one, or to this one
	missed   bool          // it did not answer the last probe
	verified time.Duration // the last probe of it began; 0: there was none
}

// isOther reports whether another machine than this one is the incumbent.
func (i *incumbent) isOther(self string) bool { return i.name != "" && i.name != self }

// suspect has an incumbent be probed at once, when one is known.
func (i *incumbent) suspect() { i.unsure, i.missed, i.verified = true, false, 0 }

// answered has the machine be the incumbent that was heard or found to answer.
func (i *incumbent) answered(machine string) { i.name, i.up, i.heir = machine, false, false }

// confirm notes that this machine knows again which one is the incumbent.
func (i *incumbent) confirm() { i.unsure, i.missed = false, false }

// assume has the owner be the incumbent. One that follows another is an heir, and is probed at a time of its own.
func (i *incumbent) assume(owner string, succeeds bool, verified time.Duration) {
	if owner != i.name {
		if i.heir = i.name != "" || succeeds; i.heir {
			i.verified, i.missed = verified, false
		}
	}
	i.name, i.up = owner, true
}

// isDue reports whether the incumbent is to be probed now: at once where it may not know that it is the owner.
func (i *incumbent) isDue(now time.Duration) bool {
	if i.verified == 0 && !i.unsure {
		i.verified = now
	}
	if i.verified != 0 && now-i.verified < verifies {
		return false
	}
	i.verified = now
	return true
}
