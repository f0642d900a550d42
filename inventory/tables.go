package inventory

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// The tables say how every key is read. A test holds them against the tags of
// the raw types.

var inventoryTable = table[rawInventory]{
	"apiVersion": func(d *decoder, n *yaml.Node, r *rawInventory) { one(d, n, &r.APIVersion, text) },
	"kind":       func(d *decoder, n *yaml.Node, r *rawInventory) { one(d, n, &r.Kind, text) },
	"metadata": func(d *decoder, n *yaml.Node, r *rawInventory) {
		part(d, n, &r.Metadata, &r.Metadata.node, metadataTable)
	},
	"spec": func(d *decoder, n *yaml.Node, r *rawInventory) { part(d, n, &r.Spec, &r.Spec.node, specTable) },
}

// part reads a mapping that stands in a field of its own.
func part[T any](d *decoder, n *yaml.Node, into *T, at **yaml.Node, t table[T]) {
	if object(d, n, into, t) {
		*at = deref(n)
	}
}

var metadataTable = table[rawMetadata]{
	"name": func(d *decoder, n *yaml.Node, r *rawMetadata) { one(d, n, &r.Name, readName) },
}

var specTable = table[rawSpec]{
	"region": func(d *decoder, n *yaml.Node, r *rawSpec) { one(d, n, &r.Region, readLabel) },
	"expect": func(d *decoder, n *yaml.Node, r *rawSpec) { part(d, n, &r.Expect, &r.Expect.node, expectTable) },
	"safety": func(d *decoder, n *yaml.Node, r *rawSpec) { part(d, n, &r.Safety, &r.Safety.node, safetyTable) },
	"labels": func(d *decoder, n *yaml.Node, r *rawSpec) { labels(d, n, &r.Labels) },
	"bgp":    func(d *decoder, n *yaml.Node, r *rawSpec) { part(d, n, &r.BGP, &r.BGP.node, bgpTable) },
	"bfdProfiles": func(d *decoder, n *yaml.Node, r *rawSpec) {
		objects(d, n, &r.BFDProfiles, bfdTable, (*rawBFDProfile).at)
	},
	"communities": func(d *decoder, n *yaml.Node, r *rawSpec) { mapping(d, n, &r.Communities, readName, readCommunity) },
	"podNetwork": func(d *decoder, n *yaml.Node, r *rawSpec) {
		part(d, n, &r.PodNetwork, &r.PodNetwork.node, podNetworkTable)
	},
	"routers": func(d *decoder, n *yaml.Node, r *rawSpec) { objects(d, n, &r.Routers, routerTable, (*rawRouter).at) },
	"pools":   func(d *decoder, n *yaml.Node, r *rawSpec) { objects(d, n, &r.Pools, poolTable, (*rawPool).at) },
	"storage": func(d *decoder, n *yaml.Node, r *rawSpec) { objects(d, n, &r.Storage, storageTable, (*rawStorage).at) },
	"racks":   func(d *decoder, n *yaml.Node, r *rawSpec) { objects(d, n, &r.Racks, rackTable, (*rawRack).at) },
}

// Where each kind of list item keeps its node.
func (r *rawBFDProfile) at() **yaml.Node  { return &r.node }
func (r *rawRouter) at() **yaml.Node      { return &r.node }
func (r *rawPool) at() **yaml.Node        { return &r.node }
func (r *rawStorage) at() **yaml.Node     { return &r.node }
func (r *rawRack) at() **yaml.Node        { return &r.node }
func (r *rawMachine) at() **yaml.Node     { return &r.node }
func (r *rawTaint) at() **yaml.Node       { return &r.node }
func (r *rawRequirement) at() **yaml.Node { return &r.node }

var expectTable = table[rawExpect]{
	"racks": func(d *decoder, n *yaml.Node, r *rawExpect) { many(d, n, &r.Racks, readName) },
}

var safetyTable = table[rawSafety]{
	"maxRemoved": func(d *decoder, n *yaml.Node, r *rawSafety) { one(d, n, &r.MaxRemoved, readLimit) },
}

// sessionTable is shared by the spec, racks and routers.
var sessionTable = table[rawSession]{
	"holdTime":        func(d *decoder, n *yaml.Node, r *rawSession) { one(d, n, &r.HoldTime, readHoldTime) },
	"gracefulRestart": func(d *decoder, n *yaml.Node, r *rawSession) { one(d, n, &r.GracefulRestart, readGracefulRestart) },
	"ttlSecurity":     func(d *decoder, n *yaml.Node, r *rawSession) { one(d, n, &r.TTLSecurity, truth) },
	"multihop":        func(d *decoder, n *yaml.Node, r *rawSession) { one(d, n, &r.Multihop, number(0, 255)) },
	"bfd":             func(d *decoder, n *yaml.Node, r *rawSession) { one(d, n, &r.BFD, readName) },
	"passwordFrom": func(d *decoder, n *yaml.Node, r *rawSession) {
		part(d, n, &r.PasswordFrom, &r.PasswordFrom.node, secretKeyTable)
	},
	"advertise": func(d *decoder, n *yaml.Node, r *rawSession) {
		part(d, n, &r.Advertise, &r.Advertise.node, announceTable)
	},
	"learn":    func(d *decoder, n *yaml.Node, r *rawSession) { one(d, n, &r.Learn, word(LearnNothing, LearnDefault)) },
	"password": func(d *decoder, n *yaml.Node, r *rawSession) { d.refusePassword(n) },
}

// withSession adds the keys of a session to a table.
func withSession[T any](t table[T], session func(*T) *rawSession) table[T] {
	for key, read := range sessionTable {
		t[key] = func(d *decoder, n *yaml.Node, r *T) { read(d, n, session(r)) }
	}
	return t
}

func (d *decoder) refusePassword(n *yaml.Node) {
	d.refuse(n, refusal{code: InlinePassword, message: "a password must not stand in the inventory", value: NotShown,
		accepted: "a Secret in Plinth's namespace", suggestion: "passwordFrom: {secret: bgp, key: password}"})
}

// readHoldTime reads the hold time of a session (RFC 4271, section 4.2). Zero,
// which would never notice a dead neighbour, is refused.
func readHoldTime(d *decoder, n *yaml.Node) (time.Duration, bool) {
	v, ok := between(0, 65535*time.Second)(d, n)
	switch {
	case !ok:
		return 0, false
	case v < 3*time.Second:
		d.refuse(n, refusal{code: ShortHoldTime, message: "is too short", accepted: "3s to 65535s", suggestion: "3s"})
		return 0, false
	}
	return v, d.wholeSeconds(n, v)
}

// wholeSeconds refuses what the protocol cannot say.
func (d *decoder) wholeSeconds(n *yaml.Node, v time.Duration) bool {
	if v%time.Second == 0 {
		return true
	}
	d.refuse(n, refusal{code: BadDuration, message: "is not in whole seconds, which is all that BGP can say", accepted: "whole seconds",
		suggestion: shortDuration(v.Round(time.Second))})
	return false
}

// readGracefulRestart reads off, or a mapping with the restart time.
func readGracefulRestart(d *decoder, n *yaml.Node) (time.Duration, bool) {
	if n.Kind == yaml.ScalarNode && n.Value == "off" {
		return 0, true
	}
	if n.Kind != yaml.MappingNode {
		d.refuse(n, refusal{code: UnknownWord, message: "is not a setting of graceful restart", accepted: "off, or {restartTime: 60s}",
			suggestion: gracefulMeant(n.Value)})
		return 0, false
	}
	var g rawGracefulRestart
	object(d, n, &g, gracefulTable)
	return g.RestartTime.or(defaultRestartTime), true
}

// gracefulMeant guesses at a short form.
func gracefulMeant(s string) string {
	switch strings.ToLower(s) {
	case "false", "no", "none", "disabled", "never", "0", "0s":
		return "off"
	case "true", "yes", "on":
		return "{restartTime: 60s}"
	}
	if fixed := durationMeant(s); fixed != "" {
		return "{restartTime: " + fixed + "}"
	}
	return ""
}

var gracefulTable = table[rawGracefulRestart]{
	"restartTime": func(d *decoder, n *yaml.Node, r *rawGracefulRestart) {
		one(d, n, &r.RestartTime, func(d *decoder, n *yaml.Node) (time.Duration, bool) {
			v, ok := between(time.Second, 4095*time.Second)(d, n)
			return v, ok && d.wholeSeconds(n, v)
		})
	},
}

var secretKeyTable = table[rawSecretKey]{
	"secret": func(d *decoder, n *yaml.Node, r *rawSecretKey) { one(d, n, &r.Secret, readSecret) },
	"key":    func(d *decoder, n *yaml.Node, r *rawSecretKey) { one(d, n, &r.Key, readSecretKey) },
}

var announceTable = table[rawAnnounce]{
	"podCIDRs": func(d *decoder, n *yaml.Node, r *rawAnnounce) { one(d, n, &r.PodCIDRs, truth) },
}

var bgpTable = withSession(table[rawBGP]{
	"asn": func(d *decoder, n *yaml.Node, r *rawBGP) { one(d, n, &r.ASN, readASN) },
}, func(r *rawBGP) *rawSession { return &r.rawSession })

var bfdTable = table[rawBFDProfile]{
	"name": func(d *decoder, n *yaml.Node, r *rawBFDProfile) { one(d, n, &r.Name, readName) },
	"interval": func(d *decoder, n *yaml.Node, r *rawBFDProfile) {
		one(d, n, &r.Interval, between(10*time.Millisecond, time.Minute))
	},
	"multiplier": func(d *decoder, n *yaml.Node, r *rawBFDProfile) { one(d, n, &r.Multiplier, number(1, 255)) },
}

var podNetworkTable = table[rawPodNetwork]{
	"mode": func(d *decoder, n *yaml.Node, r *rawPodNetwork) {
		one(d, n, &r.Mode, word(ModeDirect, ModeFabric, ModeOverlay))
	},
	"cidrs": func(d *decoder, n *yaml.Node, r *rawPodNetwork) { many(d, n, &r.CIDRs, readCIDR) },
	"rackPrefix": func(d *decoder, n *yaml.Node, r *rawPodNetwork) {
		part(d, n, &r.RackPrefix, &r.RackPrefix.node, lengthsTable)
	},
	"nodePrefix": func(d *decoder, n *yaml.Node, r *rawPodNetwork) {
		part(d, n, &r.NodePrefix, &r.NodePrefix.node, lengthsTable)
	},
}

var lengthsTable = table[rawLengths]{
	"ipv4": func(d *decoder, n *yaml.Node, r *rawLengths) { one(d, n, &r.IPv4, number(1, 32)) },
	"ipv6": func(d *decoder, n *yaml.Node, r *rawLengths) { one(d, n, &r.IPv6, number(1, 128)) },
}

var routerTable = withSession(table[rawRouter]{
	"name":      func(d *decoder, n *yaml.Node, r *rawRouter) { one(d, n, &r.Name, readName) },
	"address":   func(d *decoder, n *yaml.Node, r *rawRouter) { one(d, n, &r.Address, readRouter) },
	"addresses": func(d *decoder, n *yaml.Node, r *rawRouter) { many(d, n, &r.Addresses, readRouter) },
	"asn":       func(d *decoder, n *yaml.Node, r *rawRouter) { one(d, n, &r.ASN, readASN) },
	"port":      func(d *decoder, n *yaml.Node, r *rawRouter) { one(d, n, &r.Port, number(1, 65535)) },
	"os":        func(d *decoder, n *yaml.Node, r *rawRouter) { one(d, n, &r.OS, readName) },
}, func(r *rawRouter) *rawSession { return &r.rawSession })

var poolTable = table[rawPool]{
	"name":      func(d *decoder, n *yaml.Node, r *rawPool) { one(d, n, &r.Name, readName) },
	"addresses": func(d *decoder, n *yaml.Node, r *rawPool) { many(d, n, &r.Addresses, readAddrRange) },
	"exclude":   func(d *decoder, n *yaml.Node, r *rawPool) { many(d, n, &r.Exclude, readAddrRange) },
	"reserved": func(d *decoder, n *yaml.Node, r *rawPool) {
		mapping(d, n, &r.Reserved, readAddressKey, readReservation)
	},
	"autoAssign":    func(d *decoder, n *yaml.Node, r *rawPool) { one(d, n, &r.AutoAssign, truth) },
	"skipFirstLast": func(d *decoder, n *yaml.Node, r *rawPool) { one(d, n, &r.SkipFirstLast, truth) },
	"priority":      func(d *decoder, n *yaml.Node, r *rawPool) { one(d, n, &r.Priority, number(-1000000, 1000000)) },
	"namespaces":    func(d *decoder, n *yaml.Node, r *rawPool) { many(d, n, &r.Namespaces, readNamespace) },
	"serviceSelector": func(d *decoder, n *yaml.Node, r *rawPool) {
		part(d, n, &r.ServiceSelector, &r.ServiceSelector.node, selectorTable)
	},
	"state": func(d *decoder, n *yaml.Node, r *rawPool) {
		one(d, n, &r.State, word(PoolActive, PoolDraining, PoolDisabled))
	},
	"advertise": func(d *decoder, n *yaml.Node, r *rawPool) {
		part(d, n, &r.Advertise, &r.Advertise.node, advertiseTable)
	},
}

var selectorTable = table[rawSelector]{
	"matchLabels": func(d *decoder, n *yaml.Node, r *rawSelector) { labels(d, n, &r.MatchLabels) },
	"matchExpressions": func(d *decoder, n *yaml.Node, r *rawSelector) {
		objects(d, n, &r.MatchExpressions, requirementTable, (*rawRequirement).at)
	},
}

var requirementTable = table[rawRequirement]{
	"key": func(d *decoder, n *yaml.Node, r *rawRequirement) { one(d, n, &r.Key, readLabelKey) },
	"operator": func(d *decoder, n *yaml.Node, r *rawRequirement) {
		one(d, n, &r.Operator, word(OpIn, OpNotIn, OpExists, OpDoesNotExist))
	},
	"values": func(d *decoder, n *yaml.Node, r *rawRequirement) { many(d, n, &r.Values, readLabel) },
}

var advertiseTable = table[rawAdvertise]{
	"racks":   func(d *decoder, n *yaml.Node, r *rawAdvertise) { many(d, n, &r.Racks, readName) },
	"zones":   func(d *decoder, n *yaml.Node, r *rawAdvertise) { many(d, n, &r.Zones, readLabel) },
	"routers": func(d *decoder, n *yaml.Node, r *rawAdvertise) { many(d, n, &r.Routers, readName) },
	"aggregate": func(d *decoder, n *yaml.Node, r *rawAdvertise) {
		part(d, n, &r.Aggregate, &r.Aggregate.node, lengthsTable)
	},
	"localPref":   func(d *decoder, n *yaml.Node, r *rawAdvertise) { one(d, n, &r.LocalPref, number(0, 4294967295)) },
	"communities": func(d *decoder, n *yaml.Node, r *rawAdvertise) { many(d, n, &r.Communities, text) },
	"prepend":     func(d *decoder, n *yaml.Node, r *rawAdvertise) { one(d, n, &r.Prepend, number(0, 10)) },
	"weighted":    func(d *decoder, n *yaml.Node, r *rawAdvertise) { one(d, n, &r.Weighted, truth) },
}

var storageTable = table[rawStorage]{
	"name":  func(d *decoder, n *yaml.Node, r *rawStorage) { one(d, n, &r.Name, readName) },
	"rack":  func(d *decoder, n *yaml.Node, r *rawStorage) { one(d, n, &r.Rack, readName) },
	"nfs":   func(d *decoder, n *yaml.Node, r *rawStorage) { part(d, n, &r.NFS, &r.NFS.node, nfsTable) },
	"iscsi": func(d *decoder, n *yaml.Node, r *rawStorage) { part(d, n, &r.ISCSI, &r.ISCSI.node, iscsiTable) },
	"csi":   func(d *decoder, n *yaml.Node, r *rawStorage) { part(d, n, &r.CSI, &r.CSI.node, csiTable) },
}

var nfsTable = table[rawNFS]{
	"server": func(d *decoder, n *yaml.Node, r *rawNFS) { one(d, n, &r.Server, text) },
}

var iscsiTable = table[rawISCSI]{
	"portal": func(d *decoder, n *yaml.Node, r *rawISCSI) { one(d, n, &r.Portal, readPortal) },
}

var csiTable = table[rawCSI]{
	"driver":     func(d *decoder, n *yaml.Node, r *rawCSI) { one(d, n, &r.Driver, readSecret) },
	"attributes": func(d *decoder, n *yaml.Node, r *rawCSI) { mapping(d, n, &r.Attributes, anyKey, text) },
}

var rackTable = withSession(table[rawRack]{
	"name":       func(d *decoder, n *yaml.Node, r *rawRack) { one(d, n, &r.Name, readName) },
	"zone":       func(d *decoder, n *yaml.Node, r *rawRack) { one(d, n, &r.Zone, readLabel) },
	"row":        func(d *decoder, n *yaml.Node, r *rawRack) { one(d, n, &r.Row, readLabel) },
	"units":      func(d *decoder, n *yaml.Node, r *rawRack) { one(d, n, &r.Units, number(1, 1000)) },
	"asn":        func(d *decoder, n *yaml.Node, r *rawRack) { one(d, n, &r.ASN, readASN) },
	"subnets":    func(d *decoder, n *yaml.Node, r *rawRack) { many(d, n, &r.Subnets, readCIDR) },
	"routers":    func(d *decoder, n *yaml.Node, r *rawRack) { objects(d, n, &r.Routers, routerTable, (*rawRouter).at) },
	"peers":      func(d *decoder, n *yaml.Node, r *rawRack) { many(d, n, &r.Peers, readName) },
	"podCIDRs":   func(d *decoder, n *yaml.Node, r *rawRack) { many(d, n, &r.PodCIDRs, readCIDR) },
	"state":      func(d *decoder, n *yaml.Node, r *rawRack) { one(d, n, &r.State, readState) },
	"machines":   func(d *decoder, n *yaml.Node, r *rawRack) { objects(d, n, &r.Machines, machineTable, (*rawMachine).at) },
	"carved":     func(d *decoder, n *yaml.Node, r *rawRack) { own(d, n, func() { one(d, n, &r.Carved, truth) }) },
	"neighbours": func(d *decoder, n *yaml.Node, r *rawRack) { own(d, n, func() { many(d, n, &r.Neighbours, readName) }) },
}, func(r *rawRack) *rawSession { return &r.rawSession })

var readState = word(StatePlanned, StateActive, StateMaintenance, StateOff, StateRetired)

var machineTable = table[rawMachine]{
	"name":              func(d *decoder, n *yaml.Node, r *rawMachine) { one(d, n, &r.Name, readNodeName) },
	"id":                func(d *decoder, n *yaml.Node, r *rawMachine) { one(d, n, &r.ID, readID) },
	"match":             func(d *decoder, n *yaml.Node, r *rawMachine) { part(d, n, &r.Match, &r.Match.node, matchTable) },
	"aliases":           func(d *decoder, n *yaml.Node, r *rawMachine) { many(d, n, &r.Aliases, readAlias) },
	"unit":              func(d *decoder, n *yaml.Node, r *rawMachine) { one(d, n, &r.Unit, number(1, 1000)) },
	"type":              func(d *decoder, n *yaml.Node, r *rawMachine) { one(d, n, &r.Type, readLabel) },
	"addresses":         func(d *decoder, n *yaml.Node, r *rawMachine) { many(d, n, &r.Addresses, readAddress) },
	"externalAddresses": func(d *decoder, n *yaml.Node, r *rawMachine) { many(d, n, &r.ExternalAddresses, readAddress) },
	"hostname":          func(d *decoder, n *yaml.Node, r *rawMachine) { one(d, n, &r.Hostname, readHostname) },
	"podCIDRs":          func(d *decoder, n *yaml.Node, r *rawMachine) { many(d, n, &r.PodCIDRs, readCIDR) },
	"labels":            func(d *decoder, n *yaml.Node, r *rawMachine) { labels(d, n, &r.Labels) },
	"taints":            func(d *decoder, n *yaml.Node, r *rawMachine) { objects(d, n, &r.Taints, taintTable, (*rawTaint).at) },
	"state":             func(d *decoder, n *yaml.Node, r *rawMachine) { one(d, n, &r.State, readState) },
	"reason":            func(d *decoder, n *yaml.Node, r *rawMachine) { one(d, n, &r.Reason, readReason) },
	"held":              func(d *decoder, n *yaml.Node, r *rawMachine) { own(d, n, func() { one(d, n, &r.Held, truth) }) },
	"carved":            func(d *decoder, n *yaml.Node, r *rawMachine) { own(d, n, func() { one(d, n, &r.Carved, truth) }) },
}

var matchTable = table[rawMatch]{
	"systemUUID": func(d *decoder, n *yaml.Node, r *rawMatch) { one(d, n, &r.SystemUUID, readUUID) },
}

var taintTable = table[rawTaint]{
	"key":    func(d *decoder, n *yaml.Node, r *rawTaint) { one(d, n, &r.Key, readLabelKey) },
	"value":  func(d *decoder, n *yaml.Node, r *rawTaint) { one(d, n, &r.Value, readLabel) },
	"effect": func(d *decoder, n *yaml.Node, r *rawTaint) { one(d, n, &r.Effect, word(taintEffects...)) },
}

var taintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

// labels reads a mapping of label keys to values.
func labels(d *decoder, n *yaml.Node, into *entries[string]) {
	mapping(d, n, into, readLabelKey, readLabel)
}

// anyKey takes every key as it is.
func anyKey(_ *decoder, n *yaml.Node) (string, bool) { return n.Value, true }

// own reads a key that only Plinth writes, and refuses it in what people write.
func own(d *decoder, n *yaml.Node, read func()) {
	if d.lenient {
		read()
		return
	}
	d.refuse(n, refusal{code: UnknownKey, message: "is written by Plinth alone, in what it keeps in the cluster", accepted: "no such key here"})
}
