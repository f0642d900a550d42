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
func (r *kubeVIPReader) bgp(d kubeVIPDaemon) {
	o := d.object
	asn := r.number(d.settings, "bgp_as", kubeVIPASN)
	if v := d.get("bgp_as"); v.path == "" && d.get("annotation").value == "" {
		r.note(o, d.container, Guessed, fmt.Sprintf("has no bgp_as: the machines' AS number is kube-vip's default, %d", kubeVIPASN))
	}
	var routers []string
	add := func(path string, peer kubeVIPPeer, password inventory.Option[inventory.SecretKey]) (made bool) {
		before := len(r.inv.Routers)
		if name := r.router(o, path, peer, password); name != "" {
			routers = append(routers, name)
		}
		return len(r.inv.Routers) > before
	}
	if v := d.get("bgp_peers"); v.value != "" {
		o.mark(carried, v.path)
		for i, text := range strings.Split(v.value, ",") {
			peer, err := parseKubeVIPPeer(text)
			switch {
			case text == "":
			case err != nil:
				o.mark(noted, v.path)
				r.leftOut = true
				r.note(o, v.path, NotValid, fmt.Sprintf("bgp_peers: part %d between commas: %v: the router is left out", i+1, err))
			default:
				add(v.path, peer, inventory.Option[inventory.SecretKey]{})
			}
		}
	}
	if v := d.get("bgp_peeraddress"); v.value != "" {
		r.single(d, add)
	} else {
		r.withoutPeer(d, "", "there is no bgp_peeraddress")
	}
	if len(routers) == 0 {
		routers = []string{""} // the number counts all the same
		if v := d.get("bgp_hold_time"); v.isSet() {
			o.mark(noted, v.path)
			r.note(o, v.path, NotValid, v.String()+": no router is made that it could be of")
		}
	}
	for _, router := range routers {
		r.peer(peering{router: router, racks: d.racks, asn: inventory.ASN(asn), object: d.object, path: d.get("bgp_as").path})
	}
	if routers[0] != "" {
		r.holdTime(d.settings, routers)
	}
}

// single is the peer that has a variable for each of its settings.
func (r *kubeVIPReader) single(d kubeVIPDaemon, add func(string, kubeVIPPeer, inventory.Option[inventory.SecretKey]) bool) {
	o, at := d.object, d.get("bgp_peeraddress")
	peer := kubeVIPPeer{address: at.value, asn: r.number(d.settings, "bgp_peeras", kubeVIPASN), multihop: d.yes("bgp_multihop")}
	o.mark(carried, at.path)
	if v := d.get("bgp_multihop"); v.path != "" && peer.multihop {
		o.mark(carried, v.path)
	}
	var password inventory.Option[inventory.SecretKey]
	if v := d.get("bgp_peerpass"); v.from != nil {
		password = r.secretOf(o, v)
	} else if v.value != "" {
		peer.secret = true
		at = v
	}
	if add(at.path, peer, password) {
		return
	}
	r.withoutPeer(d, at.path, "see "+d.get("bgp_peeraddress").String())
}

// secretOf is the Secret that a variable's value comes from.
func (r *kubeVIPReader) secretOf(o *object, v variable) (none inventory.Option[inventory.SecretKey]) {
	ref := child(v.from, "secretKeyRef")
	if ref == nil || valueOf(ref, "name") == "" || valueOf(ref, "key") == "" {
		o.mark(noted, v.path)
		r.note(o, v.path, ByHand, v.String()+": its value does not come from a Secret: make one, and name it in passwordFrom")
		return none
	}
	o.mark(carried, v.path+".valueFrom.secretKeyRef.name", v.path+".valueFrom.secretKeyRef.key")
	r.note(o, v.path, ByHand, "copy the Secret into Plinth's namespace: "+copySecretCommand(cmp.Or(o.namespace, kubeSystem), valueOf(ref, "name"), valueOf(ref, "key")))
	return inventory.Some(inventory.SecretKey{Secret: valueOf(ref, "name"), Key: valueOf(ref, "key")})
}

// router adds one and returns its name; empty: it cannot be there.
func (r *kubeVIPReader) router(o *object, path string, p kubeVIPPeer, password inventory.Option[inventory.SecretKey]) string {
	tell := func(code Code, message string) {
		o.mark(noted, path)
		r.note(o, path, code, message)
	}
	addr, err := netip.ParseAddr(p.address)
	if err != nil {
		tell(NotValid, "bgp_peeraddress: is not an address: the router is left out")
		r.leftOut = true
		return ""
	}
	if i := slices.IndexFunc(r.inv.Routers, func(have inventory.Router) bool { return slices.Contains(have.Addresses, addr) }); i >= 0 {
		tell(Differs, fmt.Sprintf("router %v is there already: what is said of it the second time is left out", addr))
		return r.inv.Routers[i].Name
	}
	if why := r.unusable(addr); why != "" {
		tell(NotValid, fmt.Sprintf("%v %s: the router is left out", addr, why))
		r.leftOut = true
		return ""
	}
	name, _ := r.newName(routerName, "router-"+addr.String())
	router := inventory.Router{Name: name, Addresses: []netip.Addr{addr}, ASN: inventory.ASN(p.asn), Port: 179}
	if p.multihop {
		router.Session.Multihop = inventory.Some(uint8(kubeVIPHops))
	}
	if p.bfd.Multiplier > 0 {
		router.Session.BFD = inventory.Some(r.profile(o, p.bfd))
	}
	router.Session.Password = password
	if p.secret {
		secret, _ := cleanName("bgp-" + name)
		router.Session.Password = inventory.Some(inventory.SecretKey{Secret: secret, Key: "password"})
		tell(ByHand, fmt.Sprintf("router %v: a password belongs into a Secret: %s", addr, secretCommand(secret)))
	}
	for _, message := range p.notes {
		tell(NoCounterpart, fmt.Sprintf("router %v: %s", addr, message))
	}
	r.inv.Routers = append(r.inv.Routers, router)
	r.comment("spec.routers["+name+"]", o)
	return name
}

// profile is the name of the BFD profile with some timers.
func (r *kubeVIPReader) profile(o *object, p inventory.BFDProfile) string {
	if name, ok := r.profiles[p]; ok {
		return name
	}
	name, _ := r.newName(profileName, fmt.Sprintf("bfd-%v", p.Interval))
	r.profiles[p] = name
	p.Name = name
	r.inv.BFDProfiles = append(r.inv.BFDProfiles, p)
	r.comment("spec.bfdProfiles["+name+"]", o)
	return name
}

// holdTime is that of the sessions with some routers.
func (r *kubeVIPReader) holdTime(s settings, routers []string) {
	v := s.get("bgp_hold_time")
	if v.value == "" {
		return
	}
	seconds := r.number(s, "bgp_hold_time", 0)
	if seconds < 3 {
		s.object.mark(noted, v.path)
		r.note(s.object, v.path, NoCounterpart, v.String()+": the least is 3 seconds; sessions get 9")
		return
	}
	for i := range r.inv.Routers {
		if router := &r.inv.Routers[i]; slices.Contains(routers, router.Name) {
			router.Session.HoldTime = inventory.Some(time.Duration(seconds) * time.Second)
		}
	}
}

// number is a variable's value, which is carried over.
func (r *kubeVIPReader) number(s settings, name string, usual uint32) uint32 {
	v := s.get(name)
	if v.value == "" {
		return usual
	}
	n, err := strconv.ParseUint(v.value, 10, 32)
	if err != nil || n == 0 {
		s.object.mark(noted, v.path)
		r.note(s.object, v.path, NotValid, fmt.Sprintf("%v: %q is no number that it can have: %d is taken", v, v.value, usual))
		return usual
	}
	s.object.mark(carried, v.path)
	return uint32(n)
}

// parseKubeVIPPeer reads address:AS:password:multihop:port:options:BFD, of which the first two have to be there. What it says has none of the
// text in it but a valid address and numbers: a password with a comma or colon gets into each of the fields.
func parseKubeVIPPeer(text string) (p kubeVIPPeer, err error) {
	if strings.HasPrefix(text, "unnumbered:") {
		return p, errors.New("a session without an address: write the router by hand, with its link-local address and the interface, as in fe80::1%eth0")
	}
	rest, bracket := strings.CutPrefix(text, "[")
	if bracket { // around an IPv6 address
		if p.address, rest, bracket = strings.Cut(rest, "]"); !bracket {
			return p, errors.New("has [ and no ]")
		}
	} else {
		p.address, _, _ = strings.Cut(text, ":")
		rest = rest[len(p.address):]
	}
	if _, err := netip.ParseAddr(p.address); err != nil {
		return p, errors.New("does not begin with an address. A password with a comma has to be in bgp_peerpass")
	}
	fields := append(strings.Split(rest, ":"), make([]string, 7)...)
	asn, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil || asn == 0 {
		return p, fmt.Errorf("peer %s has no AS number", p.address)
	}
	p.asn, p.secret = uint32(asn), fields[2] != ""
	if fields[3] != "" {
		if p.multihop, err = strconv.ParseBool(fields[3]); err != nil {
			return p, fmt.Errorf("peer %s: multihop is neither true nor false", p.address)
		}
	}
	if fields[4] != "" && fields[4] != "179" {
		p.notes = append(p.notes, "has another port than 179: kube-vip goes to port 179 whatever stands there, and so does Plinth")
	}
	if fields[5] != "" {
		p.notes = append(p.notes, "has options for the next hop: it is the machine's address of the session")
	}
	return p, p.readBFD(fields[6])
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
