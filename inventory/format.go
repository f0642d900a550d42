package inventory

import (
	"fmt"
	"maps"
	"slices"
)

// Format prints the inventory as one canonical YAML document: sections and
// names in a fixed order, and nothing that is a default. Parsing it gives the
// same inventory, but for machines that are held and CIDRs that were carved,
// which are left out.
func (inv *Inventory) Format() []byte { return (&formatter{inv: inv}).document() }

// FormatAccepted prints everything, held machines and carved CIDRs too, for
// [ParseAccepted].
func (inv *Inventory) FormatAccepted() []byte {
	return (&formatter{inv: inv, accepted: true}).document()
}

// formatter turns an inventory into what is printed.
type formatter struct {
	inv      *Inventory
	accepted bool
}

func (f *formatter) document() []byte {
	var p printer
	doc := mapOf{{"apiVersion", APIVersion}, {"kind", Kind}, {"metadata", mapOf{{"name", f.inv.Name}}}}
	doc.put("spec", f.spec())
	p.mapping(doc, 0)
	return p.Bytes()
}

func (f *formatter) spec() mapOf {
	inv := f.inv
	var m mapOf
	if f.accepted || inv.Region != inv.Name {
		m.put("region", inv.Region)
	}
	m.put("expect", listAt("racks", inv.Expect))
	if inv.MaxRemoved.Given() {
		m.put("safety", mapOf{{"maxRemoved", limitValue(inv.MaxRemoved)}})
	}
	m.put("labels", textsOf(inv.NodeLabels))
	m.put("bgp", f.bgp())
	m.put("bfdProfiles", mapsOf(inv.BFDProfiles, bfdMap))
	m.put("communities", textsOf(inv.Communities))
	m.put("podNetwork", podNetworkMap(inv.PodNetwork))
	m.put("routers", f.routers(""))
	m.put("pools", mapsOf(inv.Pools, poolMap))
	m.put("storage", mapsOf(inv.Storage, storageMap))
	m.put("racks", mapsOf(inv.Racks, f.rack))
	return m
}

// listAt is a mapping with one key, empty where its value is.
func listAt(key string, v []string) mapOf {
	var m mapOf
	m.put(key, v)
	return m
}

// limitValue prints a number as a number.
func limitValue(l Limit) any {
	if l.kind == limitNumber {
		return bare(l.String())
	}
	return l.String()
}

// mapsOf maps every value.
func mapsOf[T any](all []T, f func(T) mapOf) []mapOf {
	out := make([]mapOf, len(all))
	for i, v := range all {
		out[i] = f(v)
	}
	return out
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
func stringsOf[T fmt.Stringer](all []T) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = v.String()
	}
	return out
}

func (f *formatter) bgp() mapOf {
	var m mapOf
	m.put("asn", num(f.inv.BGP.ASN, 0))
	return append(m, sessionMap(f.inv.BGP.Session)...)
}

func sessionMap(o SessionOptions) mapOf {
	var m mapOf
	if o.HoldTime.Set {
		m.put("holdTime", shortDuration(o.HoldTime.Value))
	}
	if r := o.RestartTime; r.Set && r.Value == 0 {
		m.put("gracefulRestart", "off")
	} else if r.Set {
		m.put("gracefulRestart", mapOf{{"restartTime", shortDuration(r.Value)}})
	}
	putOption(&m, "ttlSecurity", o.TTLSecurity)
	putOption(&m, "multihop", o.Multihop)
	if o.BFD.Set {
		m.put("bfd", orOff(o.BFD.Value))
	}
	if p := o.Password; p.Set {
		m.put("passwordFrom", mapOf{{"secret", p.Value.Secret}, {"key", p.Value.Key}})
	}
	if a := o.AdvertisePodCIDRs; a.Set {
		m.put("advertise", mapOf{{"podCIDRs", bare(fmt.Sprint(a.Value))}})
	}
	if o.Learn.Set {
		m.put("learn", string(o.Learn.Value))
	}
	return m
}

func putOption[T comparable](m *mapOf, key string, o Option[T]) {
	if o.Set {
		m.put(key, bare(fmt.Sprint(o.Value)))
	}
}

func orOff(name string) string {
	if name == "" {
		return "off"
	}
	return name
}

func bfdMap(b BFDProfile) mapOf {
	m := mapOf{{"name", b.Name}, {"interval", shortDuration(b.Interval)}}
	m.put("multiplier", num(b.Multiplier, 0))
	return m
}

func podNetworkMap(p PodNetwork) mapOf {
	var m mapOf
	m.put("mode", string(p.Mode))
	m.put("cidrs", stringsOf(p.CIDRs))
	m.put("rackPrefix", lengthsMap(p.RackPrefix, PrefixLengths{}))
	m.put("nodePrefix", lengthsMap(p.NodePrefix, PrefixLengths{}))
	return m
}

func lengthsMap(l, none PrefixLengths) mapOf {
	var m mapOf
	m.put("ipv4", num(l.IPv4, none.IPv4))
	m.put("ipv6", num(l.IPv6, none.IPv6))
	return m
}

// routers are those of a rack, or of the spec.
func (f *formatter) routers(rack string) []mapOf {
	var out []mapOf
	for _, r := range f.inv.Routers {
		if r.Rack == rack {
			out = append(out, routerMap(r))
		}
	}
	return out
}

func routerMap(r Router) mapOf {
	m := mapOf{{"name", r.Name}}
	if len(r.Addresses) == 1 {
		m.put("address", r.Addresses[0].String())
	} else {
		m.put("addresses", stringsOf(r.Addresses))
	}
	m.put("asn", num(r.ASN, 0))
	m.put("port", num(r.Port, defaultPort))
	m.put("os", r.OS)
	return append(m, sessionMap(r.Session)...)
}

func poolMap(p Pool) mapOf {
	m := mapOf{{"name", p.Name}}
	m.put("addresses", stringsOf(p.Ranges))
	m.put("exclude", stringsOf(p.Exclude))
	var reserved mapOf
	for _, r := range p.Reserved {
		reserved.put(r.Addr.String(), r.Namespace+"/"+r.Name)
	}
	m.put("reserved", reserved)
	m.put("autoAssign", truthOf(p.AutoAssign, true))
	m.put("skipFirstLast", truthOf(p.SkipFirstLast, false))
	if p.Priority != 0 {
		m.put("priority", bare(fmt.Sprint(p.Priority)))
	}
	m.put("namespaces", p.Namespaces)
	m.put("serviceSelector", selectorMap(p.Selector))
	if p.State != PoolActive {
		m.put("state", string(p.State))
	}
	m.put("advertise", advertiseMap(p.Advertise))
	return m
}

func selectorMap(s Selector) mapOf {
	var m mapOf
	m.put("matchLabels", textsOf(s.MatchLabels))
	m.put("matchExpressions", mapsOf(s.MatchExpressions, func(r Requirement) mapOf {
		q := mapOf{{"key", r.Key}, {"operator", string(r.Operator)}}
		q.put("values", r.Values)
		return q
	}))
	return m
}

func advertiseMap(a Advertise) mapOf {
	var m mapOf
	m.put("racks", a.Racks)
	m.put("zones", a.Zones)
	m.put("routers", a.Routers)
	m.put("aggregate", lengthsMap(a.Aggregate, PrefixLengths{32, 128}))
	m.put("localPref", num(a.LocalPref, defaultLocalPref))
	var communities []string
	for c := range a.Communities.All() {
		communities = append(communities, c.String())
	}
	m.put("communities", communities)
	m.put("prepend", num(a.Prepend, 0))
	m.put("weighted", truthOf(a.Weighted, false))
	return m
}

func storageMap(s Storage) mapOf {
	m := mapOf{{"name", s.Name}}
	m.put("rack", s.Rack)
	m.put("nfs", textAt("server", s.NFSServer))
	m.put("iscsi", textAt("portal", s.ISCSIPortal))
	csi := textAt("driver", s.CSIDriver)
	csi.put("attributes", textsOf(s.CSIAttributes))
	m.put("csi", csi)
	return m
}

// textAt is a mapping with one key, empty where its value is.
func textAt(key, v string) mapOf {
	var m mapOf
	m.put(key, v)
	return m
}

func (f *formatter) rack(r Rack) mapOf {
	m := mapOf{{"name", r.Name}}
	if f.accepted || r.Zone != r.Name {
		m.put("zone", r.Zone)
	}
	m.put("row", r.Row)
	m.put("units", num(r.Units, 0))
	if f.accepted || r.ASN != f.inv.BGP.ASN {
		m.put("asn", num(r.ASN, 0))
	}
	m.put("subnets", stringsOf(r.Subnets))
	m.put("routers", f.routers(r.Name))
	if f.accepted || !slices.Equal(r.Peers, f.inv.defaultPeers(r.Name)) {
		m = append(m, pair{"peers", r.Peers})
	}
	if f.accepted || !r.Carved {
		m.put("podCIDRs", stringsOf(r.PodCIDRs))
	}
	m.put("carved", truthOf(f.accepted && r.Carved, false))
	if f.accepted {
		m.put("neighbours", r.Neighbours)
	}
	if r.State != StateActive {
		m.put("state", string(r.State))
	}
	m = append(m, sessionMap(r.Session)...)
	var machines []mapOf
	for i := range r.Machines {
		if f.accepted || !r.Machines[i].Held {
			machines = append(machines, f.machine(&r.Machines[i]))
		}
	}
	m.put("machines", machines)
	return m
}

func (f *formatter) machine(r *Machine) mapOf {
	m := mapOf{{"name", r.Name}}
	if r.ID != r.Name {
		m.put("id", r.ID)
	}
	m.put("match", textAt("systemUUID", r.SystemUUID))
	m.put("aliases", r.Aliases)
	m.put("unit", num(r.Unit, 0))
	m.put("type", r.Type)
	m.put("addresses", stringsOf(r.Addresses))
	m.put("externalAddresses", stringsOf(r.ExternalAddresses))
	m.put("hostname", r.Hostname)
	if f.accepted || !r.Carved {
		m.put("podCIDRs", stringsOf(r.PodCIDRs))
	}
	m.put("labels", textsOf(r.Labels))
	m.put("taints", mapsOf(r.Taints, func(t Taint) mapOf {
		q := mapOf{{"key", t.Key}}
		q.put("value", t.Value)
		q.put("effect", t.Effect)
		return q
	}))
	if r.OwnState != StateActive {
		m.put("state", string(r.OwnState))
	}
	m.put("reason", r.Reason)
	m.put("held", truthOf(f.accepted && r.Held, false))
	m.put("carved", truthOf(f.accepted && r.Carved, false))
	return m
}
