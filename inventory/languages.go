package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// feature is something that sessions may have, and for which a router's language may have
// no word.
type feature struct {
	name    string
	has     func(Session) bool
	where   func(*rawSession) *yaml.Node // where it is turned on; nil: in the router alone
	without string                       // what to write for the router to do without it
}

var (
	linkLocal = feature{"link-local addresses", func(s Session) bool { return s.RouterAddr.Zone() != "" }, nil, ""}
	otherPort = feature{"another port than 179", func(s Session) bool { return s.Port != defaultPort }, nil, "port: 179"}
	usesBFD   = feature{"BFD", func(s Session) bool { return s.BFD != BFDProfile{} }, func(r *rawSession) *yaml.Node { return r.BFD.node }, `bfd: "off"`}
	ttl       = feature{"TTL security", func(s Session) bool { return s.TTLSecurity }, func(r *rawSession) *yaml.Node { return r.TTLSecurity.node }, "ttlSecurity: false"}
	ttlOfIBGP = feature{"TTL security on iBGP sessions", func(s Session) bool { return s.TTLSecurity && s.IBGP() }, ttl.where, ttl.without}
)

// lacks has the languages in which the router's side can be written, each with what it has
// no word for. None can name a router's own ports, which link-local addresses need.
var lacks = map[string][]feature{
	"bird":     {linkLocal},
	"eos":      {linkLocal, otherPort},
	"frr":      {linkLocal},
	"junos":    {linkLocal, otherPort},
	"nvue":     {linkLocal, otherPort},
	"openbgpd": {linkLocal, usesBFD},
	"opnsense": {linkLocal, otherPort, ttl},
	"routeros": {linkLocal, ttlOfIBGP},
	"unifi":    {linkLocal, otherPort}, // the gateway starts bgpd itself
	"vyos":     {linkLocal, otherPort}, // it starts bgpd itself, and has no option for its port
}

// Languages are what a router's os may be: those in which its side can be written. Sorted.
func Languages() []string { return slices.Sorted(maps.Keys(lacks)) }

// Lacks is what of a session the language has no word for; empty where the router's side
// can be written.
func Lacks(language string, s Session) string {
	if f := lacking(language, s); f != nil {
		return f.name
	}
	return ""
}

func lacking(language string, s Session) *feature {
	i := slices.IndexFunc(lacks[language], func(f feature) bool { return f.has(s) })
	if i < 0 {
		return nil
	}
	return &lacks[language][i]
}

// systems refuses a router's os that nothing can be written for.
func (v *validation) systems() {
	for _, r := range v.raw.allRouters() {
		if _, ok := lacks[r.OS.v]; r.OS.given() && !ok {
			v.refuse(r.OS.node, refusal{code: UnknownWord, message: "is no system that router-config writes for",
				accepted: strings.Join(Languages(), ", ") + ", or no os for a router whose side you write by hand", suggestion: wordMeant(r.OS.v, Languages())})
		}
	}
}

// writable refuses a session whose other end cannot be written in the router's language, once
// a router.
func (v *validation) writable(raw *rawRack, s Session) {
	router := v.raw.router(s.Router)
	if !router.OS.given() || v.unwritable[s.Router] {
		return
	}
	f := lacking(router.OS.v, s)
	if f == nil {
		return
	}
	if v.unwritable == nil {
		v.unwritable = map[string]bool{}
	}
	v.unwritable[s.Router] = true
	where := cmp.Or(router.Port.node, router.Address.node, router.Addresses.node)
	if f.where != nil {
		said := v.raw.session(raw, router)
		where = f.where(&said)
	}
	byHand := "no os for a router whose side you write by hand"
	if f.without != "" {
		byHand = f.without + " for this router, or " + byHand
	}
	v.refuse(router.OS.node, refusal{code: CannotWrite, message: fmt.Sprintf("%s cannot do %s, which the sessions of rack %s with this router use", router.OS.v, f.name, raw.Name.v),
		accepted: byHand, suggestion: f.without}, where)
}
