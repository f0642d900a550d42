package importer

import (
	"fmt"
	"slices"
	"strings"
)

// namePath is the path of the one Node that a Pod runs on, as each static Pod in a cluster has it.
func (s settings) namePath() string { return s.template + ".nodeName" }

// named are the Pods of a daemon that run each on one Node, by its name; none: one of them runs on any Node.
func (s settings) named() (all []settings) {
	all = append([]settings{s}, s.others...)
	if slices.ContainsFunc(all, func(one settings) bool { return one.nodeName() == "" }) {
		return nil
	}
	return all
}

// nodeName is the Node that a Pod says; empty: it does not.
func (s settings) nodeName() string { return s.object.text(s.namePath()) }

// runsOn is the choice of Nodes that Pods run on: by their names, and by what else they ask of a Node.
func (s settings) runsOn(pods []settings) func(node) bool {
	selectors := s.nodeSelectors()
	fits := chosenBy(selectors)
	return func(n node) bool {
		byName := len(pods) == 0 || slices.ContainsFunc(pods, func(one settings) bool { return one.nodeName() == n.name })
		return byName && (len(selectors) == 0 || fits(n))
	}
}

// nowhere reports whether a daemon runs on none of the Nodes that were read, and the field that says so.
func (r *kubeVIPReader) nowhere(s settings) (path string, is bool) {
	switch named := s.named(); {
	case r.places.nobody(s.nodeSelectors()):
		return s.placePath(), true
	case len(r.nodes) > 0 && len(named) > 0 && !slices.ContainsFunc(r.nodes, s.runsOn(named)):
		return s.namePath(), true
	}
	return "", false
}

// racksOfPods are the racks that a daemon runs in; none: all. Names of Nodes tell it where Nodes were read.
func (r *kubeVIPReader) racksOfPods(daemon kubeVIPDaemon) []string {
	bySelectors := r.places.of(daemon.object, daemon.placePath(), daemon.nodeSelectors())
	named := daemon.named()
	if len(named) == 0 || daemon.via == "" {
		return bySelectors
	}
	tell := func(code Code, format string, args ...any) {
		r.markAndNote(daemon.object, daemon.namePath(), code, fmt.Sprintf(format, args...))
	}
	if len(r.nodes) == 0 {
		var names []string
		for _, one := range named {
			names = addEach(names, []string{one.nodeName()})
		}
		slices.Sort(names)
		tell(Guessed, "runs on Node %s, whose rack nobody knows here: as far as it says that, all machines are taken. Give the Nodes, too (plinth import nodes,...)", inWords(names))
		return bySelectors
	}
	for i, one := range named {
		if without := slices.Delete(slices.Clone(named), i, i+1); len(without) == 0 || !slices.Equal(r.racksAt(daemon, without), r.racksAt(daemon, named)) {
			one.object.mark(carried, one.namePath())
		}
	}
	return r.places.ofNodes(daemon.runsOn(named), tell)
}

// racksAt are the racks of the Nodes that Pods run on, sorted.
func (r *kubeVIPReader) racksAt(d kubeVIPDaemon, pods []settings) (racks []string) {
	is := d.runsOn(pods)
	for _, n := range r.nodes {
		if is(n) {
			racks = addEach(racks, []string{n.rack})
		}
	}
	slices.Sort(racks)
	return racks
}

// peerVariables are the variables of the one peer of bgp_peeraddress.
var peerVariables = []string{"bgp_peeras", "bgp_multihop", "bgp_peerpass"}

// withoutPeer notes what is said of the peer of bgp_peeraddress where no router is made of it, but for what has a note, at a path.
func (r *kubeVIPReader) withoutPeer(d kubeVIPDaemon, at, why string) {
	for _, name := range peerVariables {
		if v := d.get(name); v.isSet() && v.path != at {
			r.overrideAndNote(d.object, v.path, Differs, fmt.Sprintf("%s: no router is made of it: %s", v, why))
		}
	}
}

// besidesARP notes BGP beside ARP, and returns the variables that have no effect then.
func (r *kubeVIPReader) besidesARP(s settings) (silent []string) {
	if v := s.get("bgp_enable"); s.yes("bgp_enable") {
		r.markAndNote(s.object, v.path, Differs, "bgp_enable: vip_arp is true, too. kube-vip v1.2 does not start so, and before it announced Services by ARP alone: ARP is taken, and the settings of BGP are left out")
	}
	for _, v := range s.variables {
		if name := strings.ToLower(v.name); strings.HasPrefix(name, "bgp_") || strings.HasPrefix(name, "mpbgp_") || strings.HasPrefix(name, "zebra_") || name == "annotation" || name == addressByFlag {
			silent = append(silent, name)
		}
	}
	return silent
}
