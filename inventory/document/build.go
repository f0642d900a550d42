package document

import (
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// build turns raw values into the core types, with every default that is
// resolved once and for all.
func (d *decoder) build(raw *rawInventory) *inventory.Inventory {
	spec := &raw.Spec
	inv := &inventory.Inventory{
		Name:   raw.Metadata.Name.v,
		Region: spec.Region.or(""),
		Expect: inventory.Expect{Racks: sortedTexts(spec.Expect.Racks), Pools: sortedTexts(spec.Expect.Pools)},
		Safety: inventory.Safety{
			MaxRemoved: option(spec.Safety.MaxRemoved), MaxUnreachable: option(spec.Safety.MaxUnreachable), MaxDrained: option(spec.Safety.MaxDrained),
			Paused: spec.Safety.Paused.v, SessionTrial: option(spec.Safety.SessionTrial),
		},
		NodeLabels:  keyed(spec.Labels),
		BGP:         inventory.BGP{ASN: spec.BGP.ASN.v, Session: d.session(&spec.BGP.rawSession)},
		Communities: keyed(spec.Communities),
		PodNetwork:  d.podNetwork(&spec.PodNetwork),
		OnLink:      spec.OnLink.settings(),
	}
	if inv.Region == "" && !d.lenient {
		inv.Region = inv.Name
	}
	inv.BFDProfiles = built(&spec.BFDProfiles, d.bfdProfile)
	inv.Routers = d.routers(&spec.Routers, "")
	inv.Pools = built(&spec.Pools, func(p *rawPool) inventory.Pool { return d.pool(p, inv.Communities) })
	inv.Storage = built(&spec.Storage, d.storage)
	for r := range spec.Racks.each() {
		inv.Racks = append(inv.Racks, d.rack(r))
		inv.Routers = append(inv.Routers, d.routers(&r.Routers, r.Name.v)...)
	}
	if d.lenient {
		inv.Routers = inventory.DistinctRouters(inv.Routers)
	}
	inv.Normalize()
	if !d.lenient { // what is accepted says it, or is older and has none
		inv.FindLinks()
	}
	return inv
}

// built are the values that are made of the items of a list; nil where there are none.
func built[T, U any](l *list[T], build func(*T) U) (all []U) {
	for item := range l.each() {
		all = append(all, build(item))
	}
	return all
}

// session returns the session options that one place of a document sets.
func (d *decoder) session(session *rawSession) inventory.SessionOptions {
	options := inventory.SessionOptions{
		HoldTime:          option(session.HoldTime),
		RestartTime:       option(session.GracefulRestart),
		TTLSecurity:       option(session.TTLSecurity),
		Multihop:          inventory.Option[uint8]{Value: uint8(session.Multihop.v), Set: session.Multihop.given()},
		BFD:               option(session.BFD),
		AdvertisePodCIDRs: option(session.Advertise.PodCIDRs),
		Learn:             option(session.Learn),
	}
	if options.BFD.Value == "off" {
		options.BFD.Value = ""
	}
	if p := &session.PasswordFrom; p.node != nil {
		if !d.part && (!p.Secret.given() || !p.Key.given()) {
			d.requireSecret(p)
		}
		options.Password = inventory.Some(inventory.SecretKey{Secret: p.Secret.v, Key: p.Key.v})
	}
	return options
}

// require notes each key that is missing from a mapping.
func (d *decoder) require(n *yaml.Node, keys ...string) {
	for _, k := range keys {
		if !d.has(n, k) {
			d.refuse(n, refusal{code: inventory.Missing, message: k + " is missing", accepted: k + ": …"})
		}
	}
}

// requireSecret notes what is missing from the name of a Secret's key. Without
// it a session would have an empty password.
func (d *decoder) requireSecret(rawSecretKey *rawSecretKey) {
	need := func(s scalar[string], key, suggestion string) {
		if !s.given() && !d.has(rawSecretKey.node, key) {
			d.refuse(rawSecretKey.node, refusal{code: inventory.Missing, message: key + " is missing", accepted: "{secret: …, key: …}", suggestion: suggestion})
		}
	}
	need(rawSecretKey.Secret, "secret", "secret: bgp")
	need(rawSecretKey.Key, "key", "key: password")
}

func (d *decoder) bfdProfile(r *rawBFDProfile) inventory.BFDProfile {
	d.require(r.node, "name", "interval")
	return inventory.BFDProfile{Name: r.Name.v, Interval: r.Interval.v, Multiplier: uint8(r.Multiplier.or(inventory.DefaultMultiplier))}
}

func (d *decoder) podNetwork(network *rawPodNetwork) inventory.PodNetwork {
	if network.node == nil {
		return inventory.PodNetwork{}
	}
	if !d.lenient && !d.part && !network.Mode.given() {
		d.require(network.node, "mode")
	}
	p := inventory.PodNetwork{Mode: network.Mode.v, CIDRs: values(network.CIDRs), RackPrefix: network.RackPrefix.lengths(), NodePrefix: network.NodePrefix.lengths(), VXLAN: network.VXLAN.vxlan()}
	for _, c := range p.CIDRs {
		p.SetDefaultLengths(c)
	}
	return p
}

func (r *rawVXLAN) vxlan() inventory.VXLAN {
	return inventory.VXLAN{Port: uint16(r.Port.or(int(inventory.DefaultVXLAN.Port))), VNI: uint32(r.VNI.or(int(inventory.DefaultVXLAN.VNI)))}
}

func (r *rawLengths) lengths() inventory.PrefixLengths {
	return inventory.PrefixLengths{IPv4: r.IPv4.v, IPv6: r.IPv6.v}
}

func (d *decoder) routers(raw *list[rawRouter], rack string) []inventory.Router {
	out := make([]inventory.Router, 0, len(raw.v))
	for rawRouter := range raw.each() {
		d.require(rawRouter.node, "name", "asn")
		router := inventory.Router{Name: rawRouter.Name.v, Rack: rack, ASN: rawRouter.ASN.v, Port: uint16(rawRouter.Port.or(inventory.DefaultPort)), OS: rawRouter.OS.v, Session: d.session(&rawRouter.rawSession)}
		if rawRouter.Address.given() {
			router.Addresses = []netip.Addr{rawRouter.Address.v}
		}
		router.Addresses = append(router.Addresses, values(rawRouter.Addresses)...)
		out = append(out, router)
	}
	return out
}

func (d *decoder) pool(pool *rawPool, named map[string]inventory.Community) inventory.Pool {
	d.require(pool.node, "name", "addresses")
	result := inventory.Pool{
		Name: pool.Name.v, Ranges: values(pool.Addresses), Exclude: values(pool.Exclude),
		AutoAssign: pool.AutoAssign.or(true), SkipFirstLast: pool.SkipFirstLast.v, Priority: pool.Priority.v,
		Namespaces: sortedTexts(pool.Namespaces), NamespaceSelectors: built(&pool.NamespaceSelectors, d.selector), Selectors: d.serviceSelectors(pool),
		State: pool.State.or(inventory.PoolActive), Advertise: d.advertisements(pool, named), Via: pool.via().v, Links: values(pool.Links),
	}
	if slices.ContainsFunc(result.NamespaceSelectors, inventory.Selector.Empty) {
		result.Namespaces, result.NamespaceSelectors = nil, nil // all
	}
	slices.SortFunc(result.Ranges, inventory.Range.Compare)
	slices.SortFunc(result.Exclude, inventory.Range.Compare)
	for _, e := range pool.Reserved.v {
		res := e.value.v
		res.Addr, _ = netip.ParseAddr(e.key.v)
		result.Reserved = append(result.Reserved, res)
	}
	slices.SortFunc(result.Reserved, func(a, b inventory.Reservation) int { return a.Addr.Compare(b.Addr) })
	return result
}

// serviceSelectors returns the selectors of a pool; none where one matches everything.
func (d *decoder) serviceSelectors(r *rawPool) []inventory.Selector {
	all := built(&r.ServiceSelectors, d.selector)
	if one := d.selector(&r.ServiceSelector); !one.Empty() {
		all = append([]inventory.Selector{one}, all...)
	}
	if slices.ContainsFunc(all, inventory.Selector.Empty) {
		return nil
	}
	return all
}

func (d *decoder) selector(r *rawSelector) inventory.Selector {
	s := inventory.Selector{MatchLabels: keyed(r.MatchLabels)}
	for q := range r.MatchExpressions.each() {
		d.require(q.node, "key", "operator")
		s.MatchExpressions = append(s.MatchExpressions, inventory.Requirement{Key: q.Key.v, Operator: q.Operator.v, Values: sortedTexts(q.Values)})
	}
	return s
}

// advertisements returns the advertisements of a pool. Where none was written, its VIPs are announced everywhere.
func (d *decoder) advertisements(r *rawPool, named map[string]inventory.Community) []inventory.Advertise {
	if len(r.Advertise.v) == 0 {
		return []inventory.Advertise{d.advertise(&rawAdvertise{}, named)}
	}
	return built(&r.Advertise.list, func(a *rawAdvertise) inventory.Advertise { return d.advertise(a, named) })
}

func (d *decoder) advertise(advertise *rawAdvertise, named map[string]inventory.Community) inventory.Advertise {
	var communities []inventory.Community
	for _, scalar := range advertise.Communities.v {
		if known, ok := named[scalar.v]; ok {
			communities = append(communities, known)
		} else if parsed, err := inventory.ParseCommunity(scalar.v); err == nil {
			communities = append(communities, parsed)
		} else {
			d.unknownCommunity(scalar, named, err)
		}
	}
	return inventory.Advertise{
		Selector: d.selector(&advertise.ServiceSelector),
		Racks:    sortedTexts(advertise.Racks), Zones: sortedTexts(advertise.Zones), Routers: sortedTexts(advertise.Routers),
		Aggregate:   inventory.PrefixLengths{IPv4: advertise.Aggregate.IPv4.or(32), IPv6: advertise.Aggregate.IPv6.or(128)},
		LocalPref:   uint32(advertise.LocalPref.or(inventory.DefaultLocalPref)),
		Communities: inventory.CommunitiesOf(communities...),
		Prepend:     uint8(advertise.Prepend.v), Weighted: advertise.Weighted.v,
	}
}

func (d *decoder) storage(r *rawStorage) inventory.Storage {
	d.require(r.node, "name", "rack")
	return inventory.Storage{Name: r.Name.v, Rack: r.Rack.v, NFSServer: r.NFS.Server.v, ISCSIPortal: r.ISCSI.Portal.v,
		CSIDriver: r.CSI.Driver.v, CSIAttributes: keyed(r.CSI.Attributes)}
}

func (d *decoder) rack(rawRack *rawRack) inventory.Rack {
	d.require(rawRack.node, "name")
	rack := inventory.Rack{
		Name: rawRack.Name.v, Zone: rawRack.Zone.or(rawRack.Name.v), Row: rawRack.Row.v, Units: rawRack.Units.v, ASN: rawRack.ASN.v,
		Subnets: values(rawRack.Subnets), PodCIDRs: values(rawRack.PodCIDRs), Carved: rawRack.Carved.v,
		State: rawRack.State.or(inventory.StateActive), Session: d.session(&rawRack.rawSession),
		Neighbours: sortedTexts(rawRack.Neighbours), OnLink: rawRack.OnLink.settings(),
		Links: built(&rawRack.Links, (*rawStoredLink).link),
	}
	if len(rawRack.Peers.v) > 0 || d.lenient && rawRack.Peers.given() {
		rack.Peers = append([]string{}, sortedTexts(rawRack.Peers)...)
	}
	rack.Machines = make([]inventory.Machine, 0, len(rawRack.Machines.v))
	for m := range rawRack.Machines.each() {
		rack.Machines = append(rack.Machines, d.machine(m, &rack))
	}
	return rack
}

func (d *decoder) machine(machine *rawMachine, rack *inventory.Rack) inventory.Machine {
	own := machine.State.or(inventory.StateActive)
	d.require(machine.node, "name")
	if heldBefore := d.lenient && !d.strict && machine.Held.v; own != inventory.StatePlanned && own != inventory.StateRetired && !heldBefore {
		d.require(machine.node, "addresses")
	}
	result := inventory.Machine{
		Name: machine.Name.v, ID: machine.ID.or(machine.Name.v), OwnID: machine.ID.given(), Rack: rack.Name, SystemUUID: inventory.ReportedUUID(machine.Match.SystemUUID.v),
		Aliases: sortedTexts(machine.Aliases), Unit: machine.Unit.v, Type: machine.Type.v,
		Addresses: values(machine.Addresses), ExternalAddresses: values(machine.ExternalAddresses), Hostname: machine.Hostname.v,
		PodCIDRs: values(machine.PodCIDRs), Carved: machine.Carved.v, Held: machine.Held.v, Labels: keyed(machine.Labels),
		OwnState: own, State: inventory.Graver(own, rack.State), Reason: machine.Reason.v,
	}
	if result.Held {
		result.State = own
	}
	for t := range machine.Taints.each() {
		d.require(t.node, "key", "effect")
		result.Taints = append(result.Taints, inventory.Taint{Key: t.Key.v, Value: t.Value.v, Effect: t.Effect.v})
	}
	slices.SortFunc(result.Taints, inventory.Taint.Compare)
	result.PlanUnreachable()
	return result
}

// values are the values of a list, in its order.
func values[T any](l list[scalar[T]]) []T {
	if len(l.v) == 0 {
		return nil
	}
	return converted(l.v, func(s scalar[T]) T { return s.v })
}

// sortedTexts are the different values of a list whose order means nothing.
func sortedTexts(l list[scalar[string]]) []string {
	out := values(l)
	slices.Sort(out)
	return slices.Compact(out)
}

// keyed is a mapping of free keys; nil where there are none.
func keyed[T any](es entries[T]) map[string]T {
	if len(es.v) == 0 {
		return nil
	}
	out := make(map[string]T, len(es.v))
	for _, e := range es.v {
		out[e.key.v] = e.value.v
	}
	return out
}

// settings returns the settings of links that one place of a document sets.
func (r *rawOnLink) settings() inventory.OnLink {
	o := inventory.OnLink{BFD: option(r.BFD), Witness: values(r.Witness), AnnounceEvery: option(r.AnnounceEvery)}
	slices.SortFunc(o.Witness, netip.Addr.Compare)
	return o
}

// link is one that a slice has.
func (r *rawStoredLink) link() inventory.Link {
	l := inventory.Link{Subnet: r.Subnet.v, Interval: r.Interval.v, Multiplier: uint8(r.Multiplier.v), Witness: values(r.Witness), AnnounceEvery: r.AnnounceEvery.v}
	l.Machines = built(&r.Machines, func(m *rawStoredLinkMachine) inventory.LinkMachine {
		return inventory.LinkMachine{Name: m.Name.v, Rack: m.Rack.v, Zone: m.Zone.or(m.Rack.v), Addr: m.Address.v, State: m.State.or(inventory.StateActive)}
	})
	return l
}

// via is the word of the first of a pool's advertisements that has one.
func (r *rawPool) via() scalar[inventory.Via] {
	for a := range r.Advertise.each() {
		if a.Via.given() {
			return a.Via
		}
	}
	return scalar[inventory.Via]{}
}
