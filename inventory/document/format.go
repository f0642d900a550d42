package document

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
)

// Format prints the inventory as one canonical YAML document: sections and
// names in a fixed order, and nothing that is a default. Parsing it gives the
// same inventory, but for machines that are held and CIDRs that were carved,
// which are left out.
func Format(inv *inventory.Inventory) []byte { return (&formatter{inv: inv}).document() }

// FormatNoted prints as [Format] does, with lines of comment at what they are about. The keys are paths as problems have
// them: of a named thing, such as spec.pools[public], of a section, such as spec.bgp, or empty for the document. The inventory need not be
// one that was parsed.
func FormatNoted(inv *inventory.Inventory, comments map[string][]string) []byte {
	return (&formatter{inv: inv, comments: comments}).document()
}

// FormatAccepted prints everything, held machines and carved CIDRs too, for
// [ParseAccepted].
func FormatAccepted(inv *inventory.Inventory) []byte {
	return (&formatter{inv: inv, accepted: true}).document()
}

// formatter turns an inventory into what is printed.
type formatter struct {
	inv      *inventory.Inventory
	accepted bool
	comments map[string][]string // by path; see FormatNoted
}

// commented is a mapping that begins with the comment on a path.
func (f *formatter) commented(path string, m mapOf) mapOf {
	if lines := f.comments[path]; len(lines) > 0 {
		return append(mapOf{{"", remarks(lines)}}, m...)
	}
	return m
}

// named maps every value, each with the comment on it.
func named[T any](f *formatter, section string, all []T, name func(T) string, m func(T) mapOf) []mapOf {
	return converted(all, func(v T) mapOf { return f.commented(section+"["+name(v)+"]", m(v)) })
}

func (f *formatter) document() []byte {
	var p printer
	p.mapping(f.commented("", filled(mapOf{{"apiVersion", inventory.APIVersion}, {"kind", inventory.Kind}, {"metadata", mapOf{{"name", f.inv.Name}}}, {"spec", f.spec()}})), 0)
	return p.Bytes()
}

func (f *formatter) spec() mapOf {
	inv := f.inv
	return filled(mapOf{
		{"region", unless(inv.Region, implied(f, inv.Name))},
		{"expect", filled(mapOf{{"racks", inv.Expect.Racks}, {"pools", inv.Expect.Pools}})},
		{"safety", safetyMap(inv.Safety)},
		{"labels", textsOf(inv.NodeLabels)},
		{"bgp", f.commented("spec.bgp", append(filled(mapOf{{"asn", plain(inv.BGP.ASN, 0)}}), sessionMap(inv.BGP.Session)...))},
		{"bfdProfiles", named(f, "spec.bfdProfiles", inv.BFDProfiles, func(b inventory.BFDProfile) string { return b.Name }, bfdMap)},
		{"communities", f.commented("spec.communities", textsOf(inv.Communities))},
		{"podNetwork", podNetworkMap(inv.PodNetwork)},
		{"routers", f.routers("")},
		{"onLink", onLinkMap(inv.OnLink)},
		{"pools", named(f, "spec.pools", inv.Pools, func(p inventory.Pool) string { return p.Name }, f.pool)},
		{"storage", converted(inv.Storage, storageMap)},
		{"racks", named(f, "spec.racks", inv.Racks, func(r inventory.Rack) string { return r.Name }, f.rack)},
	})
}

// implied is a value that goes without saying, where any does.
func implied[T any](f *formatter, v T) T {
	if f.accepted {
		var none T
		return none
	}
	return v
}

// unless is a text, or nothing where it goes without saying.
func unless[T ~string](v, none T) string {
	if v == none {
		return ""
	}
	return string(v)
}

// plain is a number or a truth value, or nothing where it goes without saying.
func plain[T comparable](v, none T) bare {
	if v == none {
		return ""
	}
	return bare(fmt.Sprint(v))
}

// given is the text of a setting, or nothing where nobody made it.
func given[T comparable](o inventory.Option[T], text func(T) string) string {
	if !o.Set {
		return ""
	}
	return text(o.Value)
}

func safetyMap(s inventory.Safety) mapOf {
	return filled(mapOf{
		{"maxRemoved", limitValue(s.MaxRemoved)}, {"maxUnreachable", limitValue(s.MaxUnreachable)}, {"maxDrained", limitValue(s.MaxDrained)},
		{"paused", plain(s.Paused, false)}, {"sessionTrial", given(s.SessionTrial, ShortDuration)},
	})
}

func limitValue(l inventory.Option[inventory.Limit]) bare {
	return bare(given(l, inventory.Limit.String))
}

// textsOf is a mapping of free keys, sorted.
func textsOf[T any](all map[string]T) mapOf {
	var m mapOf
	for _, k := range slices.Sorted(maps.Keys(all)) {
		m = append(m, pair{k, fmt.Sprint(all[k])})
	}
	return m
}

// stringsOf prints every value.
func stringsOf[T fmt.Stringer](all []T) []string { return converted(all, T.String) }

func sessionMap(options inventory.SessionOptions) mapOf {
	return filled(mapOf{
		{"holdTime", given(options.HoldTime, ShortDuration)},
		{"gracefulRestart", restartValue(options.RestartTime)},
		{"ttlSecurity", bare(given(options.TTLSecurity, printed))},
		{"multihop", bare(given(options.Multihop, printed))},
		{"bfd", given(options.BFD, orOff)},
		{"passwordFrom", filled(mapOf{{"secret", options.Password.Value.Secret}, {"key", options.Password.Value.Key}})},
		{"advertise", filled(mapOf{{"podCIDRs", bare(given(options.AdvertisePodCIDRs, printed))}})},
		{"learn", string(options.Learn.Value)},
	})
}

func printed[T any](v T) string { return fmt.Sprint(v) }

// restartValue is off, or a mapping.
func restartValue(o inventory.Option[time.Duration]) any {
	if o.Set && o.Value == 0 {
		return "off"
	}
	return filled(mapOf{{"restartTime", given(o, ShortDuration)}})
}

func orOff(name string) string {
	if name == "" {
		return "off"
	}
	return name
}

func bfdMap(b inventory.BFDProfile) mapOf {
	return filled(mapOf{{"name", b.Name}, {"interval", ShortDuration(b.Interval)}, {"multiplier", plain(b.Multiplier, 0)}})
}

func podNetworkMap(network inventory.PodNetwork) mapOf {
	return filled(mapOf{
		{"mode", string(network.Mode)},
		{"cidrs", stringsOf(network.CIDRs)},
		{"rackPrefix", lengthsMap(network.RackPrefix, inventory.PrefixLengths{})},
		{"nodePrefix", lengthsMap(network.NodePrefix, inventory.PrefixLengths{})},
		{"vxlan", vxlanMap(network.VXLAN)},
	})
}

func vxlanMap(x inventory.VXLAN) mapOf {
	if x == (inventory.VXLAN{}) {
		return nil // there is no pod network
	}
	return filled(mapOf{{"port", plain(x.Port, inventory.DefaultVXLAN.Port)}, {"vni", plain(x.VNI, inventory.DefaultVXLAN.VNI)}})
}

func lengthsMap(l, none inventory.PrefixLengths) mapOf {
	return filled(mapOf{{"ipv4", plain(l.IPv4, none.IPv4)}, {"ipv6", plain(l.IPv6, none.IPv6)}})
}

// routers returns the routers of a rack, or of the spec.
func (f *formatter) routers(rack string) []mapOf {
	section := "spec.routers"
	if rack != "" {
		section = inventory.RackPath(rack) + ".routers"
	}
	var out []mapOf
	for _, r := range f.inv.Routers {
		if r.Rack == rack {
			out = append(out, f.commented(section+"["+r.Name+"]", routerMap(r)))
		}
	}
	return out
}

func routerMap(router inventory.Router) mapOf {
	addresses := pair{"addresses", stringsOf(router.Addresses)}
	if len(router.Addresses) == 1 {
		addresses = pair{"address", router.Addresses[0].String()}
	}
	m := filled(mapOf{{"name", router.Name}, addresses, {"asn", plain(router.ASN, 0)}, {"port", plain(router.Port, inventory.DefaultPort)}, {"os", router.OS}})
	return append(m, sessionMap(router.Session)...)
}

func poolMap(pool inventory.Pool) mapOf {
	var reserved mapOf
	for _, r := range pool.Reserved {
		reserved = append(reserved, pair{r.Addr.String(), r.Namespace + "/" + r.Name})
	}
	return filled(mapOf{
		{"name", pool.Name},
		{"addresses", stringsOf(pool.Ranges)},
		{"exclude", stringsOf(pool.Exclude)},
		{"reserved", reserved},
		{"autoAssign", plain(pool.AutoAssign, true)},
		{"skipFirstLast", plain(pool.SkipFirstLast, false)},
		{"priority", plain(pool.Priority, 0)},
		{"namespaces", pool.Namespaces},
		{"namespaceSelectors", converted(pool.NamespaceSelectors, selectorMap)},
		serviceSelectors(pool.Selectors),
		{"state", unless(pool.State, inventory.PoolActive)},
		{"advertise", advertiseValue(pool)},
	})
}

// pool is one, with what is worked out of it where that is stored. Its advertisements are a list
// then, which versions do not read that would pass the links over.
func (f *formatter) pool(pool inventory.Pool) mapOf {
	m := poolMap(pool)
	if !f.accepted || len(pool.Links) == 0 {
		return m
	}
	m = slices.DeleteFunc(m, func(f pair) bool { return f.key == "advertise" })
	return append(m, pair{"advertise", converted(pool.Advertise, func(a inventory.Advertise) mapOf { return advertiseMap(pool, a) })}, pair{"links", stringsOf(pool.Links)})
}

// serviceSelectors is one selector, as every version reads it, or a list.
func serviceSelectors(all []inventory.Selector) pair {
	if len(all) == 1 {
		return pair{"serviceSelector", selectorMap(all[0])}
	}
	return pair{"serviceSelectors", converted(all, selectorMap)}
}

func selectorMap(s inventory.Selector) mapOf {
	requirement := func(r inventory.Requirement) mapOf {
		return filled(mapOf{{"key", r.Key}, {"operator", string(r.Operator)}, {"values", r.Values}})
	}
	return filled(mapOf{{"matchLabels", textsOf(s.MatchLabels)}, {"matchExpressions", converted(s.MatchExpressions, requirement)}})
}

// advertiseValue is a mapping where that says all to every version, and else a list: versions
// that read format 1 alone read no list, and must not take one advertisement of many, or one of some
// Services, for that of all.
func advertiseValue(p inventory.Pool) any {
	if all := p.Advertise; len(all) == 1 && all[0].Selector.Empty() {
		return advertiseMap(p, all[0])
	}
	return converted(p.Advertise, func(a inventory.Advertise) mapOf { return advertiseMap(p, a) })
}

func advertiseMap(p inventory.Pool, advertise inventory.Advertise) mapOf {
	return filled(mapOf{
		{"serviceSelector", selectorMap(advertise.Selector)},
		{"via", string(p.Via)},
		{"racks", advertise.Racks},
		{"zones", advertise.Zones},
		{"routers", advertise.Routers},
		{"aggregate", lengthsMap(advertise.Aggregate, inventory.PrefixLengths{IPv4: 32, IPv6: 128})},
		{"localPref", plain(advertise.LocalPref, inventory.DefaultLocalPref)},
		{"communities", stringsOf(slices.Collect(advertise.Communities.All()))},
		{"prepend", plain(advertise.Prepend, 0)},
		{"weighted", plain(advertise.Weighted, false)},
	})
}

func storageMap(storage inventory.Storage) mapOf {
	return filled(mapOf{
		{"name", storage.Name},
		{"rack", storage.Rack},
		{"nfs", filled(mapOf{{"server", storage.NFSServer}})},
		{"iscsi", filled(mapOf{{"portal", storage.ISCSIPortal}})},
		{"csi", filled(mapOf{{"driver", storage.CSIDriver}, {"attributes", textsOf(storage.CSIAttributes)}})},
	})
}

func (f *formatter) rack(rack inventory.Rack) mapOf {
	var machines []mapOf
	for i := range rack.Machines {
		if f.accepted || !rack.Machines[i].Held {
			machines = append(machines, f.commented(inventory.MachinePath(rack.Name, rack.Machines[i].Name), f.machine(&rack.Machines[i])))
		}
	}
	peers := mapOf{{"peers", rack.Peers}} // told, too, where there are none
	if !f.accepted && slices.Equal(rack.Peers, f.inv.DefaultPeers(rack.Name)) {
		peers = nil
	}
	neighbours, links := rack.Neighbours, rack.Links
	if !f.accepted {
		neighbours, links = nil, nil
	}
	place := filled(mapOf{
		{"name", rack.Name},
		{"zone", unless(rack.Zone, implied(f, rack.Name))},
		{"row", rack.Row},
		{"units", plain(rack.Units, 0)},
		{"asn", plain(rack.ASN, implied(f, f.inv.BGP.ASN))},
		{"subnets", stringsOf(rack.Subnets)},
		{"routers", f.routers(rack.Name)},
		{"onLink", onLinkMap(rack.OnLink)},
	})
	rest := filled(mapOf{
		{"podCIDRs", f.podCIDRs(rack.PodCIDRs, rack.Carved)},
		{"carved", plain(f.accepted && rack.Carved, false)},
		{"neighbours", neighbours},
		{"links", converted(links, linkMap)},
		{"state", unless(rack.State, inventory.StateActive)},
	})
	return slices.Concat(place, peers, rest, sessionMap(rack.Session), filled(mapOf{{"machines", machines}}))
}

// podCIDRs returns the pod CIDRs that people wrote, and for the accepted inventory the carved ones, too.
func (f *formatter) podCIDRs(all []netip.Prefix, carved bool) []string {
	if carved && !f.accepted {
		return nil
	}
	return stringsOf(all)
}

func (f *formatter) machine(machine *inventory.Machine) mapOf {
	taint := func(t inventory.Taint) mapOf {
		return filled(mapOf{{"key", t.Key}, {"value", t.Value}, {"effect", t.Effect}})
	}
	return filled(mapOf{
		{"name", machine.Name},
		{"id", unless(machine.ID, machine.Name)},
		{"match", filled(mapOf{{"systemUUID", machine.SystemUUID.String()}})},
		{"aliases", machine.Aliases},
		{"unit", plain(machine.Unit, 0)},
		{"type", machine.Type},
		{"addresses", stringsOf(machine.Addresses)},
		{"externalAddresses", stringsOf(machine.ExternalAddresses)},
		{"hostname", machine.Hostname},
		{"podCIDRs", f.podCIDRs(machine.PodCIDRs, machine.Carved)},
		{"labels", textsOf(machine.Labels)},
		{"taints", converted(machine.Taints, taint)},
		{"state", unless(machine.OwnState, inventory.StateActive)},
		{"reason", machine.Reason},
		{"held", plain(f.accepted && machine.Held, false)},
		{"carved", plain(f.accepted && machine.Carved, false)},
	})
}

// Equal reports whether two inventories say the same.
func Equal(inv *inventory.Inventory, other *inventory.Inventory) bool {
	if inv == nil || other == nil {
		return inv == other
	}
	return bytes.Equal(FormatAccepted(inv), FormatAccepted(other))
}

func onLinkMap(o inventory.OnLink) mapOf {
	return filled(mapOf{
		{"bfd", given(o.BFD, orOff)},
		{"witness", stringsOf(o.Witness)},
		{"announceEvery", given(o.AnnounceEvery, ShortDuration)},
	})
}

// linkMap is a link as a slice has it.
func linkMap(link inventory.Link) mapOf {
	machine := func(m inventory.LinkMachine) mapOf {
		return filled(mapOf{{"name", m.Name}, {"rack", m.Rack}, {"zone", unless(m.Zone, m.Rack)}, {"address", m.Addr.String()}, {"state", unless(m.State, inventory.StateActive)}})
	}
	return filled(mapOf{
		{"subnet", link.Subnet.String()},
		{"interval", ShortDuration(link.Interval)},
		{"multiplier", plain(link.Multiplier, 0)},
		{"witness", stringsOf(link.Witness)},
		{"announceEvery", ShortDuration(link.AnnounceEvery)},
		{"machines", converted(link.Machines, machine)},
	})
}
