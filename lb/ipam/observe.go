package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
)

// Newcomers returns the holders that an object names and that are not known to hold its
// address: [State.Observe] needs their ports, keys and backends.
func (s *State) Newcomers(o Object) []lb.ServiceKey {
	return slices.DeleteFunc(slices.Clone(o.Holders), func(k lb.ServiceKey) bool { return s.IsHolder(o.Addr, k) })
}

// Observe updates the state with an object, unless a later one of its address is known, be it
// the same one or its successor. An object that was read live counts whatever its version, which goes
// back when etcd is restored. newcomers are the holders of those of [State.Newcomers] that are
// Services.
func (s *State) Observe(object Object, newcomers []Holder, live bool) Effects {
	x := s.addresses.of(object.Addr)
	switch {
	case x.object != nil && !live && !after(object.Version, x.object.Version):
		return Effects{}
	case x.object != nil && x.releasing != (lb.ServiceKey{}) && x.object.Version == object.Version:
		return Effects{}
	}
	s.addresses.learn(object.Addr, func(x *addressRecord) { x.foreign = false })
	s.enter(object, newcomers)
	return s.out.take()
}

// DeletionsTold returns the resource version up to which the watch has told of all deletions: that of the newest one, or
// of the list by which it has begun anew; empty: it has told of none yet.
func (s *State) DeletionsTold() string { return s.told }

// IsDoubtful reports whether an object in an answer may be gone by now: it is not known, and the watch has told of
// deletions that came later. asked is [State.DeletionsTold] from before the request. The answer knows of the
// deletions that were told before the request, since a write and a read without a resource version see the
// newest state; and of those after the newest that was told the watch is still to tell.
func (s *State) IsDoubtful(o Object, asked string) bool {
	known := s.addresses.of(o.Addr).object
	return (known == nil || known.UID != o.UID) && s.told != asked && !after(o.Version, s.told)
}

// ObserveList notes that the watch lists all objects anew, at that resource version, and is about to tell which are gone.
func (s *State) ObserveList(version string) { s.tellDeletions(version) }

// tellDeletions notes that the watch has told of all deletions up to a resource version.
func (s *State) tellDeletions(version string) {
	if after(version, s.told) {
		s.told = version
	}
}

// ObserveWrite updates the state with the API server's answer to a write of ours, unless a later
// object is known already. One that [State.IsDoubtful] is not to be observed.
func (s *State) ObserveWrite(o Object, newcomers []Holder) Effects {
	if x := s.addresses.of(o.Addr); x.object == nil || !after(x.object.Version, o.Version) {
		s.enter(o, newcomers)
	}
	return s.out.take()
}

// ObserveForeign notes that another program's object has an address.
func (s *State) ObserveForeign(a netip.Addr) {
	s.addresses.learn(a, func(x *addressRecord) { x.object, x.releasing, x.foreign = nil, lb.ServiceKey{}, true })
	s.ledger.Block(a)
}

// ObserveDeleted notes that the object of an address is gone, the one of that UID or any. version is the
// resource version at which the watch says so; empty: a read does.
// Services that hold the address claim it anew, and pending Services are offered one that another
// program had.
func (s *State) ObserveDeleted(addr netip.Addr, uid, version string, now time.Time) Effects {
	s.tellDeletions(version)
	x := s.addresses.of(addr)
	if x.object != nil && uid != "" && x.object.UID != uid {
		return Effects{}
	}
	s.addresses.learn(addr, func(x *addressRecord) { x.object, x.releasing, x.foreign = nil, lb.ServiceKey{}, false })
	if x.foreign {
		s.unblock(addr, now)
	}
	c, _ := s.Holding(addr)
	for _, h := range c.Holders {
		s.out.retry(0, h.Service)
	}
	return s.out.take()
}

// Resume notes that an address that was to be released is still held: by the Services that its object
// names.
func (s *State) Resume(o Object, newcomers []Holder) Effects {
	if x := s.addresses.of(o.Addr); x.object != nil && x.object.Version == o.Version {
		s.enter(o, newcomers)
	}
	return s.out.take()
}

// Deleted notes that an object was deleted by us, unless there is another by now.
func (s *State) Deleted(o Object) {
	s.addresses.learn(o.Addr, func(x *addressRecord) {
		if x.object != nil && x.object.UID == o.UID {
			x.object, x.releasing = nil, lb.ServiceKey{}
		}
	})
}

// enter adds all holders that an object names to the ledger. The Services of new ones are reconciled.
func (s *State) enter(object Object, newcomers []Holder) {
	s.addresses.learn(object.Addr, func(x *addressRecord) { x.object, x.releasing = &object, lb.ServiceKey{} })
	for _, key := range object.Holders {
		if s.IsHolder(object.Addr, key) {
			continue
		}
		holder := Holder{Service: key}
		if i := slices.IndexFunc(newcomers, func(n Holder) bool { return n.Service == key }); i >= 0 {
			holder = newcomers[i]
		}
		if s.ledger.MayJoin(object.Addr, holder) != "" {
			s.evictUnnamed(object)
		}
		s.ledger.holdBeside(object.Addr, object.Pool, holder)
		s.out.retry(0, key)
	}
	s.ledger.HeldSince(object.Addr, object.Created)
}

// evictUnnamed removes the holders that were granted an address here and that its object does not name:
// another leader, or one that is gone, was faster. They look for another address.
func (s *State) evictUnnamed(o Object) {
	c, _ := s.Holding(o.Addr)
	for _, h := range c.Holders {
		if !o.HeldBy(h.Service) {
			s.revert(o.Addr, h.Service)
			s.out.retry(0, h.Service)
		}
	}
}

// Load builds the state from a list of all objects of ours, before anything else is known. services are
// those that may hold something, the one that was edited last at the end. Of holders that came to
// clash while no leader observed them one moves: that whose status does not show the address, since clients
// cannot know it by that, and else the one that was edited last. A holder that is none of them holds its address
// until it is reconciled.
func (s *State) Load(objects []Object, services []Request) Effects {
	place := make(map[lb.ServiceKey]int, len(services))
	for i, r := range services {
		place[r.Service] = i + 1
	}
	for _, object := range objects {
		s.addresses.learn(object.Addr, func(x *addressRecord) { x.object = &object })
		rank := func(k lb.ServiceKey) int {
			switch i := place[k]; {
			case i == 0:
				return 2 // an unknown holder must block no other
			case slices.Contains(services[i-1].Shown, object.Addr):
				return 0
			}
			return 1
		}
		order := slices.Clone(object.Holders)
		slices.SortStableFunc(order, func(x, y lb.ServiceKey) int {
			return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(place[x], place[y]))
		})
		for _, k := range order {
			holder := Holder{Service: k}
			if i := place[k]; i > 0 {
				holder = services[i-1].Holder
			} else {
				s.out.retry(0, k)
			}
			s.ledger.holdBeside(object.Addr, object.Pool, holder)
		}
		s.ledger.HeldSince(object.Addr, object.Created)
	}
	return s.out.take()
}

// Adopt adds the addresses that the status of a Service shows and that have no holder to the ledger: another
// balancer's, or an older version's. Each is claimed once the Service is reconciled. One that
// the Service would not get by asking for it is denied, since any user may have written it
// there, and kept from others until the status is cleared; but others' externalIPs deny none, see [Ledger.MayAdopt].
func (s *State) Adopt(request Request, now time.Time) (adopted []netip.Addr, denied []Denial, e Effects) {
	for _, addr := range request.Shown {
		if s.IsHolder(addr, request.Service) {
			continue
		}
		if reason := s.MayAdopt(addr, request, now); reason != "" {
			denied = append(denied, Denial{Reason: reason, Address: addr})
			s.noteShown(request.Service, request.Shown)
			continue
		}
		s.ledger.Hold(addr, s.Pool(addr), request.Holder)
		adopted = append(adopted, addr)
	}
	return adopted, denied, s.out.take()
}
