package ipam

import (
	"net/netip"
	"slices"

	"plinth.dev/plinth/lb"
)

// addresses holds the record of each address besides its holders, which the ledger has. An
// address whose record would be empty has none.
type addresses map[netip.Addr]*addressRecord

type addressRecord struct {
	object    *Object         // nil: there is none of ours
	foreign   bool            // another program's object has it
	releasing lb.ServiceKey   // released it, and its object is still there; zero: none did
	shownBy   []lb.ServiceKey // statuses show it, of Services that do not hold it
}

// of returns the record of an address; zero: it has none.
func (all addresses) of(a netip.Addr) addressRecord {
	if x := all[a]; x != nil {
		return *x
	}
	return addressRecord{}
}

// learn changes the record of an address.
func (all addresses) learn(addr netip.Addr, change func(*addressRecord)) {
	record := all.of(addr)
	change(&record)
	if record.object == nil && !record.foreign && record.releasing == (lb.ServiceKey{}) && len(record.shownBy) == 0 {
		delete(all, addr)
		return
	}
	all[addr] = &record
}

// Object returns the object of an address; zero: it has none of ours.
func (all addresses) Object(a netip.Addr) Object {
	if o := all.of(a).object; o != nil {
		return *o
	}
	return Object{}
}

// Objects returns all objects, in no order.
func (all addresses) Objects() []Object {
	out := make([]Object, 0, len(all))
	for _, x := range all {
		if x.object != nil {
			out = append(out, *x.object)
		}
	}
	return out
}

// Kept returns those objects whose addresses were not released, in no order.
func (all addresses) Kept() []Object {
	return slices.DeleteFunc(all.Objects(), func(o Object) bool { return all.Releasing(o.Addr) != nil })
}

// Releasing returns the object of an address that was released and still has one, or nil.
func (all addresses) Releasing(a netip.Addr) *Object {
	if x := all.of(a); x.releasing != (lb.ServiceKey{}) {
		return x.object
	}
	return nil
}

// services holds the record of each Service besides the addresses that it holds and lacks. A
// Service whose record would be empty has none.
type services map[lb.ServiceKey]*serviceRecord

type serviceRecord struct {
	last  *Decision    // that was carried out; nil: none
	uid   string       // of the Service that it was about
	shows []netip.Addr // that its status shows and it does not hold
}

// last is the decision about a Service that was carried out last; zero: none was.
func (all services) last(k lb.ServiceKey) Decision {
	if x := all[k]; x != nil && x.last != nil {
		return *x.last
	}
	return Decision{}
}

// Told returns the last decision that the Service of that UID was told; told is false if there was none yet.
func (all services) Told(k lb.ServiceKey, uid string) (d Decision, told bool) {
	if x := all[k]; x != nil && x.last != nil && x.uid == uid {
		return *x.last, true
	}
	return Decision{}, false
}

// learn changes the record of a Service.
func (all services) learn(key lb.ServiceKey, change func(*serviceRecord)) {
	x := all[key]
	if x == nil {
		x = &serviceRecord{}
		all[key] = x
	}
	if change(x); x.last == nil && len(x.shows) == 0 {
		delete(all, key)
	}
}

// wasDenied reports whether a Service was told why it does not get a.
func (all services) wasDenied(k lb.ServiceKey, a netip.Addr) bool {
	return slices.ContainsFunc(all.last(k).Denials, func(d Denial) bool { return d.Address == a })
}
