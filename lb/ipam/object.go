package ipam

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/lb"
)

// Object holds the fields of an IPAddress object, by which Services claim an address at the API
// server. Its holders alone count; [Object.Parent] cannot be changed, and
// may have released the address.
type Object struct {
	Addr      netip.Addr
	UID       string
	Version   string // its resource version
	Created   time.Time
	Pool      string          // that the address was given from; empty: not known
	Homes     string          // the machines that are to answer for it on a link, comma separated; empty: none was chosen
	Owner     string          // the Node that answers for it on a link, as its agent says; empty: none does
	Holders   []lb.ServiceKey // sorted
	Parent    lb.ServiceKey   // that it was made for
	ParentUID string          // of the Service that is the parent; [ParentLeft]: it is no holder any more
}

// ParentLeft is the UID of a parent that released the address while others held it.
const ParentLeft = "released"

// HeldBy reports whether the object names a Service as a holder.
func (o Object) HeldBy(k lb.ServiceKey) bool { return slices.Contains(o.Holders, k) }

// IsOfAnother reports whether the parent k of the object is known to be another Service
// than the one of that UID.
func (o Object) IsOfAnother(k lb.ServiceKey, uid string) bool {
	known := func(u string) bool { return u != "" && u != ParentLeft }
	return k == o.Parent && known(uid) && known(o.ParentUID) && uid != o.ParentUID
}

// parentUIDWith returns the UID of the object's parent once k has that UID.
func (o Object) parentUIDWith(k lb.ServiceKey, uid string) string {
	if k == o.Parent {
		return uid
	}
	return o.ParentUID
}

// after reports whether resource version a comes after b: they are decimal numbers of any
// length (KEP-5504).
func after(a, b string) bool {
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}

// Verb is the kind of write by which a Service comes to hold or release an address.
type Verb int

// The verbs of [State.ToHold] and [State.ToRelease].
const (
	Nothing Verb = iota // all is as it should be
	Create              // make the object
	Update              // write holders and the parent's UID into the object
	Refused             // another holds the address, and does not share it
	Another             // a later Service of the name holds it
	Late                // the object was made anew after it was to be released
)

// Write is one conditional write of an IPAddress object. It holds for the object as it is
// known and no other.
type Write struct {
	Verb      Verb
	Object    Object // as it is known; of Create its address alone
	Holders   []lb.ServiceKey
	ParentUID string
	Confirm   bool // only if the Service still is the one of that UID
	Released  bool // only if no Service that the object names is served any more
	Renew     bool // of an Update: the object names the Service already, and is to be another version of it
}

// withHolder returns the holders with k, sorted as they are written.
func withHolder(holders []lb.ServiceKey, k lb.ServiceKey) []lb.ServiceKey {
	all := append(slices.Clone(holders), k)
	slices.SortFunc(all, func(x, y lb.ServiceKey) int { return strings.Compare(x.String(), y.String()) })
	return slices.Compact(all)
}

func minus[T comparable](all []T, some ...T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return slices.Contains(some, x) })
}
