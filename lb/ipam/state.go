package ipam

import (
	"net/netip"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// State is the known state of addresses and of the Services that ask for them: a record for
// each, and the ledger, by which is decided. Its verbs observe events, and return the
// [Effects] that follow from them; nothing else changes it. It is not safe for concurrent use.
type State struct {
	Reader
	addresses
	services
	pendings
	ledger *Ledger
	told   string  // the resource version up to which the watch has told of all deletions; empty: of none yet
	out    Effects // of the verb that runs
}

// Reader is the part of a [Ledger] that may be read.
type Reader interface {
	Holds(lb.ServiceKey) []netip.Addr
	IsHolder(netip.Addr, lb.ServiceKey) bool
	Holding(netip.Addr) (Holding, bool)
	Holdings() []Holding
	Pool(netip.Addr) string
	Uses(netip.Addr) bool
	TakenBy(netip.Addr, lb.ServiceKey) string
	HasNamespace(string) bool
	Unheld(lb.ServiceKey, []netip.Addr) []netip.Addr
	MayAdopt(netip.Addr, Request, time.Time) lb.Reason
}

// NewState returns an empty State without pools.
func NewState() *State {
	l := NewLedger()
	return &State{Reader: l, ledger: l, addresses: addresses{}, services: services{}, pendings: pendings{}}
}

// Knows reports whether a Service holds something, is pending, or was given an answer.
func (s *State) Knows(k lb.ServiceKey) bool {
	return len(s.Holds(k)) > 0 || s.services[k] != nil || s.pendings[k] != nil
}

// HoldsMore reports whether a Service holds more than it was told of: an address that it has moved away
// from is released once its status does not show it any more.
func (s *State) HoldsMore(k lb.ServiceKey) bool {
	x := s.services[k]
	return x != nil && x.last != nil && len(s.Holds(k)) > len(x.last.VIPs)
}

// Unlisted returns the addresses that are held, or blocked, and are not in a list of all objects.
func (s *State) Unlisted(listed map[netip.Addr]bool) (all []netip.Addr) {
	for _, c := range s.Holdings() {
		if !listed[c.Addr] {
			all = append(all, c.Addr)
		}
	}
	return all
}

// SetPools makes the pools of an inventory those that addresses are given from, without
// the addresses that the cluster has taken. Held addresses stay held. [State.OfferAll] serves
// pending Services.
func (s *State) SetPools(inv *inventory.Inventory, taken ...lb.Taken) {
	s.ledger.SetPools(inv, taken...)
}

// Count holds the numbers of addresses and Services, for metrics.
type Count struct {
	Held        map[string]int    // VIPs that are held, by pool
	Pending     map[lb.Reason]int // Services that have less than they ask for, by the first reason
	Quarantined int
	Pools       []PoolCount // by family, in the order of preference
}

// PoolCount holds the numbers of addresses of a family in a pool, or the largest number where there are
// more.
type PoolCount struct {
	Pool   string
	Family lb.Family
	Size   uint64 // that Services may have
	Free   uint64 // of these neither held, nor reserved, nor in quarantine
}

// Count returns the numbers of addresses and Services at the time now.
func (s *State) Count(now time.Time) Count {
	count := Count{Held: map[string]int{}, Pending: map[lb.Reason]int{}}
	for _, c := range s.Holdings() {
		if len(c.Holders) > 0 {
			count.Held[s.Pool(c.Addr)]++
		}
	}
	for k := range s.pendings {
		if d := s.last(k); len(d.Denials) > 0 {
			count.Pending[d.Denials[0].Reason]++
		}
	}
	for _, r := range s.ledger.Quarantined() { // the ledger ends a quarantine only when it gives something
		if r.Until.After(now) {
			count.Quarantined++
		}
	}
	count.Pools = s.ledger.CountPools(now)
	return count
}
