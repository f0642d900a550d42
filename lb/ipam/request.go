package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/lb"
)

// Request is all that a Service says about the VIPs that it would like.
type Request struct {
	Holder
	Ask
	Want    Want
	Labels  map[string]string
	UID     string       // of the Service
	Created time.Time    // the Service was; an older one is pending longer
	Shown   []netip.Addr // that its status shows
}

// Holder is a Service that has a VIP, with what decides whether others may have
// the same one.
type Holder struct {
	Service  lb.ServiceKey
	Sharing  string // key under which it shares a VIP within its namespace; empty: with no other
	Ports    []Port // sorted by [Port.Compare]
	Backends string // with externalTrafficPolicy Local its selector in canonical form, else empty
}

// Port is a port that a Service serves.
type Port struct {
	Protocol string // TCP, UDP or SCTP
	Number   uint16
}

// Compare orders ports by protocol, then by number.
func (p Port) Compare(o Port) int {
	return cmp.Or(strings.Compare(p.Protocol, o.Protocol), cmp.Compare(p.Number, o.Number))
}

// inCommon reports whether two sorted slices have an element in common. It compares no
// more often than there are elements in both.
func inCommon[T any](left, right []T, compare func(T, T) int) bool {
	for len(left) > 0 && len(right) > 0 {
		switch c := compare(left[0], right[0]); {
		case c == 0:
			return true
		case c < 0:
			left = left[1:]
		default:
			right = right[1:]
		}
	}
	return false
}

// equal reports whether two Holders are the same in every respect.
func (h Holder) equal(o Holder) bool {
	return h.Service == o.Service && h.Sharing == o.Sharing && h.Backends == o.Backends && slices.Equal(h.Ports, o.Ports)
}

// refusesToShare returns the reason why one holder cannot hold a VIP beside another; empty: it can.
func (h Holder) refusesToShare(holder Holder) lb.Reason {
	switch {
	case h.Sharing == "":
		return lb.AddressInUse
	case h.Service.Namespace != holder.Service.Namespace:
		return lb.SharingNamespace
	case h.Sharing != holder.Sharing:
		return lb.SharingKeyDiffers
	case inCommon(h.Ports, holder.Ports, Port.Compare):
		return lb.SharingPortInUse
	case h.Backends != holder.Backends:
		return lb.SharingBackendsDiffer
	}
	return ""
}

// Want holds the families that a Service asks for: spec.ipFamilies under
// spec.ipFamilyPolicy. SingleStack has a First alone; RequireDualStack a Second
// too; PreferDualStack a Second that is Optional, and then either will do.
type Want struct {
	First, Second lb.Family
	Optional      bool
}

// has reports whether f is among the families asked for.
func (w Want) has(f lb.Family) bool { return f != lb.NoFamily && (f == w.First || f == w.Second) }

// dual reports whether both families are asked for.
func (w Want) dual() bool { return w.Second != lb.NoFamily }

// families returns the families that are asked for, in order.
func (w Want) families() []lb.Family {
	if w.dual() {
		return []lb.Family{w.First, w.Second}
	}
	return []lb.Family{w.First}
}

// Ask holds the pool and the addresses that the annotations of a Service ask for; see [AskOf].
type Ask struct {
	Pool    string       // empty: any
	Addrs   []netip.Addr // each once; of a family with several all are asked for, in this order
	Invalid []Denial     // of values that cannot be understood; then nothing new is given
}

// asks reports whether an address of family f is asked for.
func (a Ask) asks(f lb.Family) bool {
	return slices.ContainsFunc(a.Addrs, func(x netip.Addr) bool { return lb.FamilyOf(x) == f })
}
