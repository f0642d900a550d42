package inventory

// merge adds what one document says to what others said. Lists of named things
// and mappings of free keys are joined; all else may be given once.
func (d *decoder) merge(into, from *rawSpec) {
	once(d, &into.Region, from.Region)
	join(&into.Expect.Racks, from.Expect.Racks)
	once(d, &into.Safety.MaxRemoved, from.Safety.MaxRemoved)
	join(&into.Labels, from.Labels)
	d.mergeBGP(&into.BGP, &from.BGP)
	join(&into.BFDProfiles, from.BFDProfiles)
	join(&into.Communities, from.Communities)
	d.mergePodNetwork(&into.PodNetwork, &from.PodNetwork)
	join(&into.Routers, from.Routers)
	join(&into.Pools, from.Pools)
	join(&into.Storage, from.Storage)
	join(&into.Racks, from.Racks)
}

func (d *decoder) mergeBGP(into, from *rawBGP) {
	if into.node == nil {
		into.node = from.node
	}
	once(d, &into.ASN, from.ASN)
	once(d, &into.HoldTime, from.HoldTime)
	once(d, &into.GracefulRestart, from.GracefulRestart)
	once(d, &into.TTLSecurity, from.TTLSecurity)
	once(d, &into.Multihop, from.Multihop)
	once(d, &into.BFD, from.BFD)
	once(d, &into.PasswordFrom.Secret, from.PasswordFrom.Secret)
	once(d, &into.PasswordFrom.Key, from.PasswordFrom.Key)
	if into.PasswordFrom.node == nil {
		into.PasswordFrom.node = from.PasswordFrom.node
	}
	once(d, &into.Advertise.PodCIDRs, from.Advertise.PodCIDRs)
	once(d, &into.Learn, from.Learn)
}

func (d *decoder) mergePodNetwork(into, from *rawPodNetwork) {
	if into.node == nil {
		into.node = from.node
	}
	once(d, &into.Mode, from.Mode)
	if into.CIDRs.given() && from.CIDRs.given() {
		d.givenTwice(scalar[bool]{node: from.CIDRs.node}, scalar[bool]{node: into.CIDRs.node})
	} else if from.CIDRs.given() {
		into.CIDRs = from.CIDRs
	}
	once(d, &into.RackPrefix.IPv4, from.RackPrefix.IPv4)
	once(d, &into.RackPrefix.IPv6, from.RackPrefix.IPv6)
	once(d, &into.NodePrefix.IPv4, from.NodePrefix.IPv4)
	once(d, &into.NodePrefix.IPv6, from.NodePrefix.IPv6)
}

// once takes a value over, unless another document gave one.
func once[T any](d *decoder, into *scalar[T], from scalar[T]) {
	switch {
	case !from.given():
	case into.given():
		d.givenTwice(scalar[bool]{node: from.node}, scalar[bool]{node: into.node})
	default:
		*into = from
	}
}

func (d *decoder) givenTwice(second, first scalar[bool]) {
	d.refuse(second.node, refusal{code: GivenTwice, message: "is given in two documents",
		accepted: "one place for each value; only lists of named things and mappings are joined"}, first.node)
}

// join appends what another document gave.
func join[T any](into *list[T], from list[T]) {
	if into.node == nil {
		into.node = from.node
	}
	into.v = append(into.v, from.v...)
}
