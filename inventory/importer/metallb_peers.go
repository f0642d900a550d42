package importer

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"go.universe.tf/metallb/api/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
)

// metalLBPeer is a BGPPeer.
type metalLBPeer struct {
	object *object
	spec   v1beta2.BGPPeerSpec
}

// readPeers reads BGPPeers. Those of v1beta1 have the same fields but for one, which is noted.
func (r *metalLBReader) readPeers() (peers []metalLBPeer) {
	for o, p := range decoded[v1beta2.BGPPeer](r.draft, metalLB, "BGPPeer") {
		peers = append(peers, metalLBPeer{o, p.Spec})
	}
	return peers
}

// farHops is the TTL that FRR gives a session of a neighbour with ebgp-multihop and no number, which is what MetalLB configures.
const farHops = 255

// addPeers makes routers of the peers. Several peers of one address are one router: in MetalLB each is of other Nodes.
func (r *metalLBReader) addPeers(peers []metalLBPeer) {
	var made, all []madePeer
	for _, peer := range peers {
		object := peer.object
		object.mark(carried, "spec.myASN", "spec.peerASN", "spec.peerAddress", "spec.peerPort", "spec.holdTime", "spec.bfdProfile", "spec.ebgpMultiHop",
			"spec.enableGracefulRestart", "spec.nodeSelectors")
		r.dropOfPeer(object)
		first, again := firstOf(made, peer)
		router, ok := inventory.Router{}, again
		if !again {
			router, ok = r.router(peer)
		}
		if !ok {
			r.leftOut = true
			continue
		}
		chosen := selectors(peer.spec.NodeSelectors)
		if r.places.nobody(chosen) {
			r.leaveOut(object, "spec.nodeSelectors", NotValid, "no Node that was read has these labels: the router is left out")
			continue
		}
		one := madePeer{metalLBPeer: peer, router: first.router}
		if again {
			r.joinPeer(peer, first)
		} else {
			one.router = r.name(object, routerName, "pools refer to it")
			router.Name = one.router
			r.inv.Routers = append(r.inv.Routers, router)
			made = append(made, one)
		}
		r.routers[object.name] = one.router
		r.comment("spec.routers["+one.router+"]", object)
		one.racks = r.places.of(object, "spec.nodeSelectors", chosen)
		all = append(all, one)
	}
	for _, p := range all {
		asn, path := r.ourASN(p, all)
		r.peer(peering{router: p.router, racks: p.racks, asn: asn, object: p.object, path: path, places: []string{"spec.nodeSelectors"}})
	}
}

// madePeer is a BGPPeer that a router was made of, or that was joined to it.
type madePeer struct {
	metalLBPeer
	router string   // its name
	racks  []string // nil: all
}

// firstOf is the peer that a router was made of which another one is of, too: it has the same address, port and AS number.
func firstOf(made []madePeer, peer metalLBPeer) (first madePeer, ok bool) {
	addr, err := netip.ParseAddr(peer.spec.Address)
	asn, whole := peerASN(peer.spec)
	if err != nil || !whole {
		return first, false
	}
	for _, m := range made {
		have, _ := netip.ParseAddr(m.spec.Address)
		if other, _ := peerASN(m.spec); have == addr && other == asn && cmp.Or(m.spec.Port, 179) == cmp.Or(peer.spec.Port, 179) {
			return m, true
		}
	}
	return first, false
}

// peerASN is the AS number of a router; false: the peer has not both numbers.
func peerASN(spec v1beta2.BGPPeerSpec) (asn uint32, ok bool) {
	asn = spec.ASN
	if spec.DynamicASN == v1beta2.InternalASNMode && asn == 0 {
		asn = spec.MyASN
	} else if spec.DynamicASN != "" {
		return 0, false
	}
	return asn, asn != 0 && spec.MyASN != 0
}

// joinPeer notes the differences of a router's further peer from its first one: in an inventory all machines have one kind of session with it.
func (r *metalLBReader) joinPeer(p metalLBPeer, first madePeer) {
	object := p.object
	r.drop(object, "spec.interface", "there is a peerAddress, too, and MetalLB refuses both: the address is taken")
	object.mark(carried, "spec.dynamicASN")
	var unsaid []string
	for _, path := range []string{"spec.holdTime", "spec.keepaliveTime", "spec.bfdProfile", "spec.ebgpMultiHop", "spec.enableGracefulRestart", "spec.password", "spec.passwordSecret"} {
		switch same := sameBelow(object, first.object, path); {
		case same:
			object.mark(meaningless, path)
		case object.has(path):
			r.overrideAndNote(object, path, Differs, fmt.Sprintf("router %s has one kind of session with all machines: what %v says of it counts", first.router, first.object))
		default:
			unsaid = append(unsaid, path)
		}
	}
	if len(unsaid) > 0 {
		r.note(object, "spec", Differs, fmt.Sprintf("router %s has one kind of session with all machines: what %v says of it counts, which has %s, too", first.router, first.object, inWords(unsaid)))
	}
}

// sameBelow reports whether two objects say the same at and below a path.
func sameBelow(from, other *object, path string) bool {
	values := func(o *object) (all []string) {
		for _, l := range o.leaves() {
			if within(l.path, path) {
				all = append(all, l.path+"="+l.node.Value)
			}
		}
		return all
	}
	return slices.Equal(values(from), values(other))
}

// ourASN is the AS number that a router sees, and the field that says it. With localASN that is another one than the speaker's own: it is taken where all
// peers of the same machines say the same.
func (r *metalLBReader) ourASN(peer madePeer, all []madePeer) (asn inventory.ASN, path string) {
	mine, local := inventory.ASN(peer.spec.MyASN), inventory.ASN(peer.spec.LocalASN)
	if local == 0 || local == mine {
		if peer.object.has("spec.localASN") {
			peer.object.mark(meaningless, "spec.localASN")
		}
		return mine, "spec.myASN"
	}
	for _, other := range all {
		if seen := inventory.ASN(cmp.Or(other.spec.LocalASN, other.spec.MyASN)); seen != local && meetRacks(peer.racks, other.racks) {
			r.markAndNote(peer.object, "spec.localASN", Differs, fmt.Sprintf("the router expects AS %v of the machines, and %v has them show %v: the machines of a rack have one AS number, and the session does not come up until the router expects %v, or the rack has asn: %v",
				local, other.object, seen, mine, local))
			return mine, "spec.myASN"
		}
	}
	peer.object.mark(carried, "spec.localASN")
	r.markAndNote(peer.object, "spec.myASN", Differs, fmt.Sprintf("the machines have the AS number that the router sees, %v (localASN), and no other one behind it", local))
	return local, "spec.localASN"
}

// meetRacks reports whether two lists of racks have one in common; nil has all.
func meetRacks(a, b []string) bool {
	return a == nil || b == nil || slices.ContainsFunc(a, func(name string) bool { return slices.Contains(b, name) })
}

// router returns the router of the inventory for a BGPPeer; false: it cannot be there.
func (r *metalLBReader) router(peer metalLBPeer) (router inventory.Router, ok bool) {
	object, spec := peer.object, peer.spec
	if spec.Interface != "" && spec.Address == "" {
		r.leaveOut(object, "spec.interface", ByHand, "a session without an address: write the router's link-local address, as in fe80::1%"+spec.Interface+". The router is left out")
		return router, false
	}
	r.drop(object, "spec.interface", "there is a peerAddress, too, and MetalLB refuses both: the address is taken")
	addr, err := netip.ParseAddr(spec.Address)
	if why := r.unusable(addr); err == nil && why != "" {
		r.leaveOut(object, "spec.peerAddress", NotValid, fmt.Sprintf("%v %s: the router is left out. A link-local address is written with the machines' interface, as in fe80::1%%eth0", addr, why))
		return router, false
	}
	if err != nil {
		r.leaveOut(object, "spec.peerAddress", NotValid, fmt.Sprintf("%q is not an address: the router is left out", spec.Address))
		return router, false
	}
	asn := spec.ASN
	if asn != 0 && spec.DynamicASN != "" {
		r.leaveOut(object, "spec.dynamicASN", NotValid, "there is peerASN, too, and MetalLB refuses both: the router is left out")
		return router, false
	}
	switch spec.DynamicASN {
	case v1beta2.InternalASNMode:
		asn = spec.MyASN
		object.mark(carried, "spec.dynamicASN")
	case v1beta2.ExternalASNMode:
		r.leaveOut(object, "spec.dynamicASN", ByHand, "Plinth wants the number of the router's AS: write the router with it. It is left out")
		return router, false
	}
	if asn == 0 || spec.MyASN == 0 {
		r.leaveOut(object, "spec", NotValid, "has no AS number for both ends: the router is left out")
		return router, false
	}
	router = inventory.Router{Addresses: []netip.Addr{addr}, ASN: inventory.ASN(asn), Port: cmp.Or(spec.Port, 179)}
	r.session(peer, &router.Session)
	return router, true
}

// session carries over how a session is held.
func (r *metalLBReader) session(peer metalLBPeer, to *inventory.SessionOptions) {
	object, spec := peer.object, peer.spec
	r.holdTime(peer, to)
	if spec.EBGPMultiHop {
		to.Multihop = inventory.Some(uint8(farHops))
	}
	if n := object.at("spec.enableGracefulRestart"); n != nil && !spec.EnableGracefulRestart {
		to.RestartTime = inventory.Some(time.Duration(0))
	}
	if spec.BFDProfile != "" {
		name, ok := r.profiles[spec.BFDProfile]
		if !ok {
			r.markAndNote(object, "spec.bfdProfile", NotValid, fmt.Sprintf("there is no BFDProfile %q in what was read: the session is without BFD", spec.BFDProfile))
		} else {
			to.BFD = inventory.Some(name)
		}
	}
	r.password(peer, to)
}

// holdTime is the session's: as it is written, else three times the keepalive time, as MetalLB has it then (RFC 4271, section 10).
func (r *metalLBReader) holdTime(p metalLBPeer, to *inventory.SessionOptions) {
	object, hold, path := p.object, p.spec.HoldTime, "spec.holdTime"
	if hold == nil && p.spec.KeepaliveTime != nil {
		path, hold = "spec.keepaliveTime", &metav1.Duration{Duration: 3 * p.spec.KeepaliveTime.Duration}
		object.mark(carried, path)
	} else {
		r.drop(object, "spec.keepaliveTime", "keepalives are sent every third of the hold time (RFC 4271, section 10)")
	}
	switch {
	case hold == nil:
	case hold.Duration >= 3*time.Second && hold.Duration <= math.MaxUint16*time.Second && hold.Duration%time.Second == 0:
		to.HoldTime = inventory.Some(hold.Duration)
	default:
		r.markAndNote(object, path, NoCounterpart, fmt.Sprintf("a hold time of %v; Plinth has whole seconds from 3 to 65535, and the session gets 9s", hold.Duration))
	}
}

// password points at the Secret. A password that is written down is never printed.
func (r *metalLBReader) password(peer metalLBPeer, to *inventory.SessionOptions) {
	object := peer.object
	if reference := peer.spec.PasswordSecret; reference.Name != "" {
		r.drop(object, "spec.password", "there is a passwordSecret, too, and MetalLB refuses both: the Secret's is taken")
		if !r.namesSecret(object, "spec.passwordSecret", reference.Name) {
			return
		}
		object.mark(carried, "spec.passwordSecret.name")
		object.mark(noted, "spec.passwordSecret.namespace")
		to.Password = inventory.Some(inventory.SecretKey{Secret: reference.Name, Key: "password"})
		r.note(object, "spec.passwordSecret", ByHand, "copy the Secret into Plinth's namespace: "+copySecretCommand(cmp.Or(reference.Namespace, object.namespace, "metallb-system"), reference.Name, "password"))
		return
	}
	if peer.spec.Password != "" {
		object.mark(noted, "spec.password")
		secret, _ := cleanName("bgp-" + object.name)
		to.Password = inventory.Some(inventory.SecretKey{Secret: secret, Key: "password"})
		r.note(object, "spec.password", ByHand, "a password belongs into a Secret: "+secretCommand(secret))
	}
}

// dropOfPeer notes what no session of Plinth's has.
func (r *metalLBReader) dropOfPeer(object *object) {
	for _, field := range [][2]string{
		{"spec.sourceAddress", "sessions come from the machine's address in the router's subnet, else from the first of the router's family"},
		{"spec.vrf", "Plinth has no VRFs; the session would come from the main table"},
		{"spec.routerID", "the router ID is the machine's first IPv4 address, or made of its name"},
		{"spec.connectTime", "sessions are tried again after 1 to 16 seconds"},
	} {
		r.drop(object, field[0], field[1])
	}
	r.dropUnless(object, "spec.disableMP", "false", "a session carries both families where the router does; two addresses make a session for each")
	r.dropUnless(object, "spec.dualStackAddressFamily", "true", "a session carries both families where the router does")
}
