package document

import "plinth.dev/plinth/inventory"

func onLinkMap(o inventory.OnLink) mapOf {
	return filled(mapOf{
		{"bfd", given(o.BFD, orOff)},
		{"witness", stringsOf(o.Witness)},
		{"announceEvery", given(o.AnnounceEvery, ShortDuration)},
	})
}

// linkMap is a link as a slice has it.
func linkMap(l inventory.Link) mapOf {
	machine := func(m inventory.LinkMachine) mapOf {
		return filled(mapOf{{"name", m.Name}, {"rack", m.Rack}, {"zone", unless(m.Zone, m.Rack)}, {"address", m.Addr.String()}, {"state", unless(m.State, inventory.StateActive)}})
	}
	return filled(mapOf{
		{"subnet", l.Subnet.String()},
		{"interval", ShortDuration(l.Interval)},
		{"multiplier", plain(l.Multiplier, 0)},
		{"witness", stringsOf(l.Witness)},
		{"announceEvery", ShortDuration(l.AnnounceEvery)},
		{"machines", mapsOf(l.Machines, machine)},
	})
}
