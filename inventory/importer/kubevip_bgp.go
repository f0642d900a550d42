package importer

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"plinth.dev/plinth/inventory"
)

// kubeVIPHops is the TTL of kube-vip's sessions with multihop, and kubeVIPASN the AS number of either end where nothing is said.
const (
	kubeVIPHops = 50
	kubeVIPASN  = 65000
)

// kubeVIPPeer is a BGP peer in kube-vip's environment.
type kubeVIPPeer struct {
	address  string
	asn      uint32
	secret   bool // it has a password
	multihop bool
	bfd      inventory.BFDProfile // zero: none
	notes    []string             // what of it is not carried over
}

// bgp makes routers of a daemon's peers.
func (r *kubeVIPReader) bgp(daemon kubeVIPDaemon) {
	object := daemon.object
	asn := r.number(daemon.settings, "bgp_as", kubeVIPASN)
	if v := daemon.get("bgp_as"); v.path == "" && daemon.get("annotation").value == "" {
		r.note(object, daemon.container, Guessed, fmt.Sprintf("has no bgp_as: the machines' AS number is kube-vip's default, %d", kubeVIPASN))
	}
	var routers []string
	add := func(path string, peer kubeVIPPeer, password inventory.Option[inventory.SecretKey]) (made bool) {
		before := len(r.inv.Routers)
		if name := r.router(object, path, peer, password); name != "" {
			routers = append(routers, name)
		}
		return len(r.inv.Routers) > before
	}
	if variable := daemon.get("bgp_peers"); variable.value != "" {
		object.mark(carried, variable.path)
		for i, text := range strings.Split(variable.value, ",") {
			peer, err := parseKubeVIPPeer(text)
			switch {
			case text == "":
			case err != nil:
				r.leaveOutRouter(object, variable.path, NotValid, fmt.Sprintf("bgp_peers: part %d between commas: %v: the router is left out", i+1, err))
			default:
				add(variable.path, peer, inventory.Option[inventory.SecretKey]{})
			}
		}
	}
	if v := daemon.get("bgp_peeraddress"); v.value != "" {
		r.single(daemon, add)
	} else {
		r.withoutPeer(daemon, "", "there is no bgp_peeraddress")
	}
	if len(routers) == 0 {
		routers = []string{""} // the number counts all the same
		if v := daemon.get("bgp_hold_time"); v.isSet() {
			r.markAndNote(object, v.path, NotValid, v.String()+": no router is made that it could be of")
		}
	}
	for _, router := range routers {
		r.peer(peering{router: router, racks: daemon.racks, asn: inventory.ASN(asn), object: daemon.object, path: daemon.get("bgp_as").path})
	}
	if routers[0] != "" {
		r.holdTime(daemon.settings, routers)
	}
}

// single is the peer that has a variable for each of its settings.
func (r *kubeVIPReader) single(daemon kubeVIPDaemon, add func(string, kubeVIPPeer, inventory.Option[inventory.SecretKey]) bool) {
	object, at := daemon.object, daemon.get("bgp_peeraddress")
	peer := kubeVIPPeer{address: at.value, asn: r.number(daemon.settings, "bgp_peeras", kubeVIPASN), multihop: daemon.yes("bgp_multihop")}
	object.mark(carried, at.path)
	if v := daemon.get("bgp_multihop"); v.path != "" && peer.multihop {
		object.mark(carried, v.path)
	}
	var password inventory.Option[inventory.SecretKey]
	if v := daemon.get("bgp_peerpass"); v.from != nil {
		password = r.secretOf(object, v)
	} else if v.value != "" {
		peer.secret = true
		at = v
	}
	if add(at.path, peer, password) {
		return
	}
	r.withoutPeer(daemon, at.path, "see "+daemon.get("bgp_peeraddress").String())
}

// secretOf is the Secret that a variable's value comes from.
func (r *kubeVIPReader) secretOf(object *object, variable variable) (none inventory.Option[inventory.SecretKey]) {
	ref := child(variable.from, "secretKeyRef")
	if ref == nil || valueOf(ref, "name") == "" || valueOf(ref, "key") == "" {
		r.markAndNote(object, variable.path, ByHand, variable.String()+": its value does not come from a Secret: make one, and name it in passwordFrom")
		return none
	}
	object.mark(carried, variable.path+".valueFrom.secretKeyRef.name", variable.path+".valueFrom.secretKeyRef.key")
	r.note(object, variable.path, ByHand, "copy the Secret into Plinth's namespace: "+copySecretCommand(cmp.Or(object.namespace, kubeSystem), valueOf(ref, "name"), valueOf(ref, "key")))
	return inventory.Some(inventory.SecretKey{Secret: valueOf(ref, "name"), Key: valueOf(ref, "key")})
}

// router adds one and returns its name; empty: it cannot be there.
func (r *kubeVIPReader) router(object *object, path string, peer kubeVIPPeer, password inventory.Option[inventory.SecretKey]) string {
	addr, err := netip.ParseAddr(peer.address)
	if err != nil {
		r.leaveOutRouter(object, path, NotValid, "bgp_peeraddress: is not an address: the router is left out")
		return ""
	}
	if i := slices.IndexFunc(r.inv.Routers, func(have inventory.Router) bool { return slices.Contains(have.Addresses, addr) }); i >= 0 {
		r.markAndNote(object, path, Differs, fmt.Sprintf("router %v is there already: what is said of it the second time is left out", addr))
		return r.inv.Routers[i].Name
	}
	if why := r.unusable(addr); why != "" {
		r.leaveOutRouter(object, path, NotValid, fmt.Sprintf("%v %s: the router is left out", addr, why))
		return ""
	}
	name, _ := r.newName(routerName, "router-"+addr.String())
	router := inventory.Router{Name: name, Addresses: []netip.Addr{addr}, ASN: inventory.ASN(peer.asn), Port: 179}
	if peer.multihop {
		router.Session.Multihop = inventory.Some(uint8(kubeVIPHops))
	}
	if peer.bfd.Multiplier > 0 {
		router.Session.BFD = inventory.Some(r.profile(object, peer.bfd))
	}
	router.Session.Password = password
	if peer.secret {
		secret, _ := cleanName("bgp-" + name)
		router.Session.Password = inventory.Some(inventory.SecretKey{Secret: secret, Key: "password"})
		r.markAndNote(object, path, ByHand, fmt.Sprintf("router %v: a password belongs into a Secret: %s", addr, secretCommand(secret)))
	}
	for _, message := range peer.notes {
		r.markAndNote(object, path, NoCounterpart, fmt.Sprintf("router %v: %s", addr, message))
	}
	r.inv.Routers = append(r.inv.Routers, router)
	r.comment("spec.routers["+name+"]", object)
	return name
}

// profile is the name of the BFD profile with some timers.
func (r *kubeVIPReader) profile(object *object, profile inventory.BFDProfile) string {
	if name, ok := r.profiles[profile]; ok {
		return name
	}
	name, _ := r.newName(profileName, fmt.Sprintf("bfd-%v", profile.Interval))
	r.profiles[profile] = name
	profile.Name = name
	r.inv.BFDProfiles = append(r.inv.BFDProfiles, profile)
	r.comment("spec.bfdProfiles["+name+"]", object)
	return name
}

// holdTime sets the hold time of the sessions with some routers.
func (r *kubeVIPReader) holdTime(settings settings, routers []string) {
	variable := settings.get("bgp_hold_time")
	if variable.value == "" {
		return
	}
	seconds := r.number(settings, "bgp_hold_time", 0)
	if seconds < 3 {
		r.markAndNote(settings.object, variable.path, NoCounterpart, variable.String()+": the least is 3 seconds; sessions get 9")
		return
	}
	for i := range r.inv.Routers {
		if router := &r.inv.Routers[i]; slices.Contains(routers, router.Name) {
			router.Session.HoldTime = inventory.Some(time.Duration(seconds) * time.Second)
		}
	}
}

// number is a variable's value, which is carried over.
func (r *kubeVIPReader) number(settings settings, name string, usual uint32) uint32 {
	variable := settings.get(name)
	if variable.value == "" {
		return usual
	}
	number, err := strconv.ParseUint(variable.value, 10, 32)
	if err != nil || number == 0 {
		r.markAndNote(settings.object, variable.path, NotValid, fmt.Sprintf("%v: %q is no number that it can have: %d is taken", variable, variable.value, usual))
		return usual
	}
	settings.object.mark(carried, variable.path)
	return uint32(number)
}

// parseKubeVIPPeer reads address:AS:password:multihop:port:options:BFD, of which the first two have to be there. What it says has none of the
// text in it but a valid address and numbers: a password with a comma or colon gets into each of the fields.
func parseKubeVIPPeer(text string) (peer kubeVIPPeer, err error) {
	if strings.HasPrefix(text, "unnumbered:") {
		return peer, errors.New("a session without an address: write the router by hand, with its link-local address and the interface, as in fe80::1%eth0")
	}
	rest, bracket := strings.CutPrefix(text, "[")
	if bracket { // around an IPv6 address
		if peer.address, rest, bracket = strings.Cut(rest, "]"); !bracket {
			return peer, errors.New("has [ and no ]")
		}
	} else {
		peer.address, _, _ = strings.Cut(text, ":")
		rest = rest[len(peer.address):]
	}
	if _, err := netip.ParseAddr(peer.address); err != nil {
		return peer, errors.New("does not begin with an address. A password with a comma has to be in bgp_peerpass")
	}
	fields := append(strings.Split(rest, ":"), make([]string, 7)...)
	asn, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil || asn == 0 {
		return peer, fmt.Errorf("peer %s has no AS number", peer.address)
	}
	peer.asn, peer.secret = uint32(asn), fields[2] != ""
	if fields[3] != "" {
		if peer.multihop, err = strconv.ParseBool(fields[3]); err != nil {
			return peer, fmt.Errorf("peer %s: multihop is neither true nor false", peer.address)
		}
	}
	if fields[4] != "" && fields[4] != "179" {
		peer.notes = append(peer.notes, "has another port than 179: kube-vip goes to port 179 whatever stands there, and so does Plinth")
	}
	if fields[5] != "" {
		peer.notes = append(peer.notes, "has options for the next hop: it is the machine's address of the session")
	}
	return peer, peer.readBFD(fields[6])
}

// readBFD reads enabled;receive;transmit;multiplier, with the times in microseconds.
func (p *kubeVIPPeer) readBFD(text string) error {
	fields := strings.Split(text, ";")
	if text == "" || fields[0] == "false" {
		return nil
	}
	if len(fields) < 4 || fields[0] != "true" {
		return fmt.Errorf("peer %s: BFD is not written as true;RECEIVE;TRANSMIT;MULTIPLIER", p.address)
	}
	number := func(name, text string, usual uint64) uint64 {
		if n, err := strconv.ParseUint(text, 10, 32); err == nil {
			return n
		} else if text != "" {
			p.notes = append(p.notes, fmt.Sprintf("%s of its BFD settings is no number: %d is taken", name, usual))
		}
		return usual
	}
	const usual = 300 // microseconds
	receive, transmit, multiplier := number("RECEIVE", fields[1], usual), number("TRANSMIT", fields[2], usual), number("MULTIPLIER", fields[3], 3)
	interval := time.Duration(max(receive, transmit)) * time.Microsecond
	if receive != transmit {
		p.notes = append(p.notes, fmt.Sprintf("BFD receives every %d and transmits every %d microseconds: Plinth has one interval for both ways, %v", receive, transmit, interval))
	}
	if interval < 10*time.Millisecond {
		p.notes = append(p.notes, fmt.Sprintf("BFD every %v is more often than machines can: every 300ms is taken. kube-vip's numbers are microseconds", interval))
		interval = 300 * time.Millisecond
	}
	if interval > time.Minute {
		p.notes = append(p.notes, fmt.Sprintf("BFD every %v is too seldom: every minute is taken", interval))
		interval = time.Minute
	}
	p.bfd = inventory.BFDProfile{Interval: interval.Round(time.Millisecond), Multiplier: uint8(min(max(multiplier, 1), 255))}
	return nil
}
