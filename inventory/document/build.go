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
	s := &raw.Spec
	inv := &inventory.Inventory{
		Name:   raw.Metadata.Name.v,
		Region: s.Region.or(""),
		Expect: inventory.Expect{Racks: sortedTexts(s.Expect.Racks), Pools: sortedTexts(s.Expect.Pools)},
		Safety: inventory.Safety{
			MaxRemoved: option(s.Safety.MaxRemoved), MaxUnreachable: option(s.Safety.MaxUnreachable), MaxDrained: option(s.Safety.MaxDrained),
			Paused: s.Safety.Paused.v, SessionTrial: option(s.Safety.SessionTrial),
		},
		NodeLabels:  keyed(s.Labels),
		BGP:         inventory.BGP{ASN: s.BGP.ASN.v, Session: d.session(&s.BGP.rawSession)},
		Communities: keyed(s.Communities),
		PodNetwork:  d.podNetwork(&s.PodNetwork),
		OnLink:      s.OnLink.settings(),
	}
	if inv.Region == "" && !d.lenient {
		inv.Region = inv.Name
	}
	for p := range s.BFDProfiles.each() {
		inv.BFDProfiles = append(inv.BFDProfiles, d.bfdProfile(p))
	}
	inv.Routers = d.routers(&s.Routers, "")
	for p := range s.Pools.each() {
		inv.Pools = append(inv.Pools, d.pool(p, inv.Communities))
	}
	for st := range s.Storage.each() {
		inv.Storage = append(inv.Storage, d.storage(st))
	}
	for r := range s.Racks.each() {
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

// session reads what one place says about sessions.
func (d *decoder) session(r *rawSession) inventory.SessionOptions {
	o := inventory.SessionOptions{
		HoldTime:          option(r.HoldTime),
		RestartTime:       option(r.GracefulRestart),
		TTLSecurity:       option(r.TTLSecurity),
		Multihop:          inventory.Option[uint8]{Value: uint8(r.Multihop.v), Set: r.Multihop.given()},
		BFD:               option(r.BFD),
		AdvertisePodCIDRs: option(r.Advertise.PodCIDRs),
		Learn:             option(r.Learn),
	}
	if o.BFD.Value == "off" {
		o.BFD.Value = ""
	}
	if p := &r.PasswordFrom; p.node != nil {
		if !d.part && (!p.Secret.given() || !p.Key.given()) {
			d.requireSecret(p)
		}
		o.Password = inventory.Some(inventory.SecretKey{Secret: p.Secret.v, Key: p.Key.v})
	}
	return o
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
func (d *decoder) requireSecret(r *rawSecretKey) {
	need := func(s scalar[string], key, suggestion string) {
		if !s.given() && !d.has(r.node, key) {
			d.refuse(r.node, refusal{code: inventory.Missing, message: key + " is missing", accepted: "{secret: …, key: …}", suggestion: suggestion})
		}
	}
	need(r.Secret, "secret", "secret: bgp")
	need(r.Key, "key", "key: password")
}

func (d *decoder) bfdProfile(r *rawBFDProfile) inventory.BFDProfile {
	d.require(r.node, "name", "interval")
	return inventory.BFDProfile{Name: r.Name.v, Interval: r.Interval.v, Multiplier: uint8(r.Multiplier.or(inventory.DefaultMultiplier))}
}

func (d *decoder) podNetwork(r *rawPodNetwork) inventory.PodNetwork {
	if r.node == nil {
		return inventory.PodNetwork{}
	}
	if !d.lenient && !d.part && !r.Mode.given() {
		d.require(r.node, "mode")
	}
	p := inventory.PodNetwork{Mode: r.Mode.v, CIDRs: values(r.CIDRs), RackPrefix: r.RackPrefix.lengths(), NodePrefix: r.NodePrefix.lengths(), VXLAN: r.VXLAN.vxlan()}
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
	for r := range raw.each() {
		d.require(r.node, "name", "asn")
		router := inventory.Router{Name: r.Name.v, Rack: rack, ASN: r.ASN.v, Port: uint16(r.Port.or(inventory.DefaultPort)), OS: r.OS.v, Session: d.session(&r.rawSession)}
		if r.Address.given() {
			router.Addresses = []netip.Addr{r.Address.v}
		}
		router.Addresses = append(router.Addresses, values(r.Addresses)...)
		out = append(out, router)
	}
	return out
}

func (d *decoder) pool(r *rawPool, named map[string]inventory.Community) inventory.Pool {
	d.require(r.node, "name", "addresses")
	p := inventory.Pool{
		Name: r.Name.v, Ranges: values(r.Addresses), Exclude: values(r.Exclude),
		AutoAssign: r.AutoAssign.or(true), SkipFirstLast: r.SkipFirstLast.v, Priority: r.Priority.v,
		Namespaces: sortedTexts(r.Namespaces), NamespaceSelectors: d.selectors(r.NamespaceSelectors), Selectors: d.serviceSelectors(r),
		State: r.State.or(inventory.PoolActive), Advertise: d.advertisements(r, named), Via: r.via().v, Links: values(r.Links),
	}
	if slices.ContainsFunc(p.NamespaceSelectors, inventory.Selector.Empty) {
		p.Namespaces, p.NamespaceSelectors = nil, nil // all
	}
	slices.SortFunc(p.Ranges, inventory.Range.Compare)
	slices.SortFunc(p.Exclude, inventory.Range.Compare)
	for _, e := range r.Reserved.v {
		res := e.value.v
		res.Addr, _ = netip.ParseAddr(e.key.v)
		p.Reserved = append(p.Reserved, res)
	}
	slices.SortFunc(p.Reserved, func(a, b inventory.Reservation) int { return a.Addr.Compare(b.Addr) })
	return p
}

// serviceSelectors are those of a pool; none where one matches everything.
func (d *decoder) serviceSelectors(r *rawPool) []inventory.Selector {
	all := d.selectors(r.ServiceSelectors)
	if one := d.selector(&r.ServiceSelector); !one.Empty() {
		all = append([]inventory.Selector{one}, all...)
	}
	if slices.ContainsFunc(all, inventory.Selector.Empty) {
		return nil
	}
	return all
}

func (d *decoder) selectors(l list[rawSelector]) (all []inventory.Selector) {
	for r := range l.each() {
		all = append(all, d.selector(r))
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

// advertisements are those of a pool. Where nobody wrote one, its VIPs are announced everywhere.
func (d *decoder) advertisements(r *rawPool, named map[string]inventory.Community) []inventory.Advertise {
	if len(r.Advertise.v) == 0 {
		return []inventory.Advertise{d.advertise(&rawAdvertise{}, named)}
	}
	var all []inventory.Advertise
	for a := range r.Advertise.each() {
		all = append(all, d.advertise(a, named))
	}
	return all
}

func (d *decoder) advertise(r *rawAdvertise, named map[string]inventory.Community) inventory.Advertise {
	var communities []inventory.Community
	for _, c := range r.Communities.v {
		if known, ok := named[c.v]; ok {
			communities = append(communities, known)
		} else if parsed, err := inventory.ParseCommunity(c.v); err == nil {
			communities = append(communities, parsed)
		} else {
			d.unknownCommunity(c, named, err)
		}
	}
	return inventory.Advertise{
		Selector: d.selector(&r.ServiceSelector),
		Racks:    sortedTexts(r.Racks), Zones: sortedTexts(r.Zones), Routers: sortedTexts(r.Routers),
		Aggregate:   inventory.PrefixLengths{IPv4: r.Aggregate.IPv4.or(32), IPv6: r.Aggregate.IPv6.or(128)},
		LocalPref:   uint32(r.LocalPref.or(inventory.DefaultLocalPref)),
		Communities: inventory.CommunitiesOf(communities...),
		Prepend:     uint8(r.Prepend.v), Weighted: r.Weighted.v,
	}
}

func (d *decoder) storage(r *rawStorage) inventory.Storage {
	d.require(r.node, "name", "rack")
	return inventory.Storage{Name: r.Name.v, Rack: r.Rack.v, NFSServer: r.NFS.Server.v, ISCSIPortal: r.ISCSI.Portal.v,
		CSIDriver: r.CSI.Driver.v, CSIAttributes: keyed(r.CSI.Attributes)}
}

func (d *decoder) rack(r *rawRack) inventory.Rack {
	d.require(r.node, "name")
	rack := inventory.Rack{
		Name: r.Name.v, Zone: r.Zone.or(r.Name.v), Row: r.Row.v, Units: r.Units.v, ASN: r.ASN.v,
		Subnets: values(r.Subnets), PodCIDRs: values(r.PodCIDRs), Carved: r.Carved.v,
		State: r.State.or(inventory.StateActive), Session: d.session(&r.rawSession),
		Neighbours: sortedTexts(r.Neighbours), OnLink: r.OnLink.settings(),
	}
	for l := range r.Links.each() {
		rack.Links = append(rack.Links, l.link())
	}
	if len(r.Peers.v) > 0 || d.lenient && r.Peers.given() {
		rack.Peers = append([]string{}, sortedTexts(r.Peers)...)
	}
	rack.Machines = make([]inventory.Machine, 0, len(r.Machines.v))
	for m := range r.Machines.each() {
		rack.Machines = append(rack.Machines, d.machine(m, &rack))
	}
	return rack
}

func (d *decoder) machine(r *rawMachine, rack *inventory.Rack) inventory.Machine {
	own := r.State.or(inventory.StateActive)
	d.require(r.node, "name")
	if heldBefore := d.lenient && !d.strict && r.Held.v; own != inventory.StatePlanned && own != inventory.StateRetired && !heldBefore {
		d.require(r.node, "addresses")
	}
	m := inventory.Machine{
		Name: r.Name.v, ID: r.ID.or(r.Name.v), OwnID: r.ID.given(), Rack: rack.Name, SystemUUID: inventory.ReportedUUID(r.Match.SystemUUID.v),
		Aliases: sortedTexts(r.Aliases), Unit: r.Unit.v, Type: r.Type.v,
		Addresses: values(r.Addresses), ExternalAddresses: values(r.ExternalAddresses), Hostname: r.Hostname.v,
		PodCIDRs: values(r.PodCIDRs), Carved: r.Carved.v, Held: r.Held.v, Labels: keyed(r.Labels),
		OwnState: own, State: inventory.Graver(own, rack.State), Reason: r.Reason.v,
	}
	if m.Held {
		m.State = own
	}
	for t := range r.Taints.each() {
		d.require(t.node, "key", "effect")
		m.Taints = append(m.Taints, inventory.Taint{Key: t.Key.v, Value: t.Value.v, Effect: t.Effect.v})
	}
	slices.SortFunc(m.Taints, inventory.Taint.Compare)
	m.PlanUnreachable()
	return m
}

// values are the values of a list, in its order.
func values[T any](l list[scalar[T]]) []T {
	if len(l.v) == 0 {
		return nil
	}
	out := make([]T, len(l.v))
	for i, s := range l.v {
		out[i] = s.v
	}
	return out
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

// settings are what one place says about links.
func (r *rawOnLink) settings() inventory.OnLink {
	o := inventory.OnLink{BFD: option(r.BFD), Witness: values(r.Witness), AnnounceEvery: option(r.AnnounceEvery)}
	slices.SortFunc(o.Witness, netip.Addr.Compare)
	return o
}

// link is one that a slice has.
func (r *rawStoredLink) link() inventory.Link {
	l := inventory.Link{Subnet: r.Subnet.v, Interval: r.Interval.v, Multiplier: uint8(r.Multiplier.v), Witness: values(r.Witness), AnnounceEvery: r.AnnounceEvery.v}
	for m := range r.Machines.each() {
		l.Machines = append(l.Machines, inventory.LinkMachine{Name: m.Name.v, Rack: m.Rack.v, Zone: m.Zone.or(m.Rack.v), Addr: m.Address.v, State: m.State.or(inventory.StateActive)})
	}
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
