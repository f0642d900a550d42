package advertise

import (
	"time"

	"plinth.dev/plinth/inventory"
)

// lately is the time for which a machine that was heard to claim a VIP may still claim it: claims are announced each minute,
// and a frame may be lost.
const lately = 150 * time.Second

// next returns the machine that would follow the owner; empty: none.
func (t *tenure) next(owner string) string {
	return t.firstAble(func(name string) bool { return name != owner })
}

// auditor returns the machine that probes the VIP now and then: not one that may take itself for the owner, too. Empty: none.
func (t *tenure) auditor(now time.Duration, owner, self string) string {
	return t.firstAble(func(name string) bool {
		return name != owner && !t.rivals.claims(now, name, lately) && !(name == self && t.claim.heldWithin(now, lately))
	})
}

func (t *tenure) firstAble(is func(name string) bool) string {
	able, _ := inventory.Find(t.able, is)
	return able
}
