package document

import "plinth.dev/plinth/inventory"

// validate runs every check.
func (d *decoder) validate(raw *rawInventory, inv *inventory.Inventory) {
	checked := &validation{decoder: d, raw: &raw.Spec, inv: inv, unwritable: map[string]bool{}}
	checked.hosts, checked.bare = checked.hostAddresses(), checked.bareRacks()
	names, machines, addresses, pools := nameChecks{checked}, machineChecks{checked}, addressChecks{checked}, poolChecks{checked}
	advertise, links, sessions, pods := advertiseChecks{checked}, linkChecks{checked}, sessionChecks{checked}, podChecks{checked}
	run(
		names.names, names.references, names.expected, names.labelKeys,
		machines.identities, machines.units, machines.taints, machines.storages, machines.selectors,
		addresses.addresses, addresses.subnets,
		pools.poolRanges, pools.poolsAndOthers, pools.reservations,
		advertise.poolReach, advertise.aggregates, advertise.shadowed,
		links.viaAgrees, links.links,
		sessions.systems, sessions.sessions, sessions.routers, sessions.linkLocals, sessions.bfd,
		pods.podNetwork, pods.podCIDRs,
		effectChecks{checked}.effects,
	)
}

// partly runs the checks whose errors no further document can take away.
func (v *validation) partly() {
	names, machines, sessions := nameChecks{v}, machineChecks{v}, sessionChecks{v}
	run(
		names.names, names.labelKeys,
		machines.identities, machines.units, machines.taints, machines.storages, machines.selectors,
		poolChecks{v}.poolRanges, linkChecks{v}.viaAgrees, sessions.routers, sessions.bfd,
	)
}

func run(checks ...func()) {
	for _, check := range checks {
		check()
	}
}

// Check returns the problems of documents that do not depend on the other documents of their inventory:
// syntax, keys and values, and duplicates within these documents. Where it has an
// error, [Parse] has one for every set of documents that has these among them. References to
// another document, and checks that need the whole inventory, are left to Parse.
func Check(docs ...Document) inventory.Problems {
	dec := &decoder{part: true}
	pages, problems := dec.read(docs)
	dec.pages = pages
	raw := dec.decode(pages)
	if raw != nil {
		v := &validation{decoder: dec, raw: &raw.Spec, inv: dec.build(raw), unwritable: map[string]bool{}}
		v.partly()
	}
	if dec.steps <= 0 {
		return problems // how many aliases are too many depends on how large the others are
	}
	return append(problems, dec.place(pages)...).Sorted()
}
