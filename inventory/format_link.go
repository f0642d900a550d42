package inventory

func onLinkMap(o OnLink) mapOf {
	return filled(mapOf{
		{"bfd", given(o.BFD, orOff)},
		{"witness", stringsOf(o.Witness)},
		{"announceEvery", given(o.AnnounceEvery, shortDuration)},
	})
}

// linkMap is a link as a slice has it.
func linkMap(l Link) mapOf {
	machine := func(m LinkMachine) mapOf {
		return filled(mapOf{{"name", m.Name}, {"rack", m.Rack}, {"zone", unless(m.Zone, m.Rack)}, {"address", m.Addr.String()}, {"state", unless(m.State, StateActive)}})
	}
	return filled(mapOf{
		{"subnet", l.Subnet.String()},
		{"interval", shortDuration(l.Interval)},
		{"multiplier", plain(l.Multiplier, 0)},
		{"witness", stringsOf(l.Witness)},
		{"announceEvery", shortDuration(l.AnnounceEvery)},
		{"machines", mapsOf(l.Machines, machine)},
	})
}
