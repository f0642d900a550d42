package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// effectChecks are the checks of what means nothing, or not what it seems to.
type effectChecks struct{ *validation }

// effects warns of what is right by itself, and as a whole does nothing: it is seldom meant,
// and nothing else says so.
func (v effectChecks) effects() {
	if slices.ContainsFunc(v.faults, func(f fault) bool { return f.severity != inventory.Warning }) {
		return // what the whole does is not known yet
	}
	v.nothingAutomatic()
	v.nothingGiven()
	v.nothingInService()
	subnetChecks(v).notOnLink()
	subnetChecks(v).besideMachines()
	v.slowBFD()
	v.unused()
}

// nothingAutomatic warns where a Service that asks for nothing gets nothing.
func (v effectChecks) nothingAutomatic() {
	var first *yaml.Node
	for p := range v.raw.Pools.each() {
		if p.AutoAssign.or(true) {
			return
		}
		first = cmp.Or(first, p.AutoAssign.node)
	}
	if first != nil {
		v.refuse(first, refusal{code: inventory.NothingAutomatic, severity: inventory.Warning, message: "no pool gives addresses by itself, so a Service has to ask for a pool or an address",
			accepted: "a pool without it, or the annotation plinth.dev/pool on every Service", suggestion: "true"})
	}
}

// nothingGiven warns where every pool is withdrawn.
func (v effectChecks) nothingGiven() {
	var first *yaml.Node
	for p := range v.raw.Pools.each() {
		if p.State.v != inventory.PoolDisabled {
			return
		}
		first = cmp.Or(first, p.State.node)
	}
	if first != nil {
		v.refuse(first, refusal{code: inventory.AllPoolsDisabled, severity: inventory.Warning, message: "every pool is disabled, so no VIP is given or announced", accepted: "a pool that is active", suggestion: "active"})
	}
}

// nothingInService warns where machines are out of service, and none is in service. Machines
// that are all planned are a datacenter that is being built.
func (v effectChecks) nothingInService() {
	out := 0
	for m := range v.inv.Machines() {
		switch m.State {
		case inventory.StateActive:
			return
		case inventory.StateMaintenance, inventory.StateOff:
			out++
		case inventory.StatePlanned, inventory.StateRetired:
		}
	}
	if out == 0 {
		return
	}
	v.refuse(v.firstOutOfService(), refusal{code: inventory.NothingInService, severity: inventory.Warning, message: fmt.Sprintf("no machine is active, so nothing is announced (in maintenance or off: %d)", out),
		accepted: "a machine that is active", suggestion: "active"})
}

// firstOutOfService is the first state that takes a machine out of service.
func (v effectChecks) firstOutOfService() *yaml.Node {
	isOut := func(s inventory.State) bool { return s == inventory.StateMaintenance || s == inventory.StateOff }
	for r := range v.raw.Racks.each() {
		if isOut(r.State.v) && len(r.Machines.v) > 0 {
			return r.State.node
		}
		for m := range r.Machines.each() {
			if isOut(m.State.v) {
				return m.State.node
			}
		}
	}
	return nil
}

// slowBFD warns once of each profile that finds out later than BGP itself that a router is gone.
func (v effectChecks) slowBFD() {
	told := map[string]bool{}
	for _, rack := range v.inv.Racks {
		for _, name := range rack.Peers {
			router, ok := v.inv.Router(name)
			if !ok || len(rack.Machines) == 0 {
				continue
			}
			o := v.inv.SessionOptions(rack, router)
			profile, hold := v.inv.BFDProfile(o.BFD.Or("")), o.HoldTime.Or(inventory.DefaultHoldTime)
			if after := profile.Interval * time.Duration(profile.Multiplier); after >= hold && profile.Name != "" && !told[profile.Name] {
				told[profile.Name] = true
				v.refuse(v.intervalOf(profile.Name), refusal{code: inventory.SlowBFD, severity: inventory.Warning,
					message:  fmt.Sprintf("finds out after %s that a router is gone, and the hold time of sessions with %s is %s", ShortDuration(after), name, ShortDuration(hold)),
					accepted: "an interval that gives less than the hold time, times the multiplier", suggestion: "interval: " + ShortDuration(fasterThan(hold, profile.Multiplier))})
			}
		}
	}
}

// fasterThan is a round interval that finds out well before the hold time is over.
func fasterThan(hold time.Duration, multiplier uint8) time.Duration {
	return max((hold-hold/10)/time.Duration(max(multiplier, 1))/(100*time.Millisecond)*(100*time.Millisecond), 10*time.Millisecond)
}

func (v effectChecks) intervalOf(profile string) *yaml.Node {
	for p := range v.raw.BFDProfiles.each() {
		if p.Name.v == profile {
			return p.Interval.node
		}
	}
	return nil
}

// unused warns of profiles and communities that nothing refers to: either a reference is
// missing, or they can go.
func (v effectChecks) unused() {
	profiles, communities := v.writtenUnder("bfd"), v.writtenUnder("communities")
	for p := range v.raw.BFDProfiles.each() {
		if p.Name.given() && !slices.Contains(profiles, p.Name.v) {
			v.refuse(p.Name.node, refusal{code: inventory.Unused, severity: inventory.Warning, message: "no bfd names this profile", accepted: "bfd: " + p.Name.v + " in spec.bgp, a rack, a router or onLink, or no such profile", suggestion: v.useOf(p.Name.v)})
		}
	}
	for _, c := range v.raw.Communities.v {
		if !slices.Contains(communities, c.key.v) {
			v.refuse(c.key.node, refusal{code: inventory.Unused, severity: inventory.Warning, message: "no pool announces with this community", accepted: "its name in communities of a pool's advertise, or no such community", value: c.key.v, suggestion: v.announcedWith(c.key.v)})
		}
	}
}

// useOf returns the place to name a BFD profile, if no other one is the default of all sessions.
func (v effectChecks) useOf(profile string) string {
	if v.raw.BGP.BFD.given() {
		return ""
	}
	return "spec.bgp.bfd: " + quoted(profile)
}

// announcedWith returns the text by which the first pool announces with a community, too, where it has one advertisement at most.
func (v effectChecks) announcedWith(community string) string {
	for pool := range v.raw.Pools.each() {
		if len(pool.Advertise.v) > 1 {
			return ""
		}
		var all []string
		for c := range pool.advertise(0).Communities.each() {
			all = append(all, quoted(c.v))
		}
		return fmt.Sprintf("spec.pools[%s].advertise.communities: [%s]", pool.Name.v, strings.Join(append(all, quoted(community)), ", "))
	}
	return ""
}

// writtenUnder are the words that stand under a key anywhere, by themselves or in a list.
func (v effectChecks) writtenUnder(key string) (words []string) {
	for _, p := range v.pages {
		walk(p.root, trail{}, func(n *yaml.Node, _ *trail) {
			for k, value := range pairs(n) {
				if value = deref(value); k.Value == key && value.Kind != yaml.MappingNode {
					for _, word := range append([]*yaml.Node{value}, value.Content...) {
						words = append(words, deref(word).Value)
					}
				}
			}
		})
	}
	return words
}
