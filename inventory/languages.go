package inventory

import (
	"maps"
	"slices"
)

// Feature is something that sessions may have, and for which a router's language may have no word.
type Feature string

// The features that some languages lack.
const (
	LinkLocal Feature = "link-local addresses"
	OtherPort Feature = "another port than 179"
	UsesBFD   Feature = "BFD"
	TTL       Feature = "TTL security"
	TTLOfIBGP Feature = "TTL security on iBGP sessions"
)

// has maps a feature to the function that reports whether a session has it.
var has = map[Feature]func(Session) bool{
	LinkLocal: func(s Session) bool { return s.RouterAddr.Zone() != "" },
	OtherPort: func(s Session) bool { return s.Port != DefaultPort },
	UsesBFD:   func(s Session) bool { return s.BFD != BFDProfile{} },
	TTL:       func(s Session) bool { return s.TTLSecurity },
	TTLOfIBGP: func(s Session) bool { return s.TTLSecurity && s.IBGP() },
}

// lacks has the languages in which the router's side can be written, each with what it has
// no word for. None can name a router's own ports, which link-local addresses need.
var lacks = map[string][]Feature{
	"bird":     {LinkLocal},
	"eos":      {LinkLocal, OtherPort},
	"frr":      {LinkLocal},
	"junos":    {LinkLocal, OtherPort},
	"nvue":     {LinkLocal, OtherPort},
	"openbgpd": {LinkLocal, UsesBFD},
	"opnsense": {LinkLocal, OtherPort, TTL},
	"routeros": {LinkLocal, TTLOfIBGP},
	"unifi":    {LinkLocal, OtherPort}, // the gateway starts bgpd itself
	"vyos":     {LinkLocal, OtherPort}, // it starts bgpd itself, and has no option for its port
}

// weighsEqually has the languages of routers that give all next hops of a route the same weight, whatever link bandwidth
// (draft-ietf-idr-link-bandwidth) they are told. BIRD 2.0.12 does so, and FRR 8.4 weighs by it; the others were not tried.
var weighsEqually = map[string]bool{"bird": true}

// WeighsEqually reports whether a router that is configured in a language is known to give all next hops of a route the same weight,
// whatever link bandwidth it is told.
func WeighsEqually(language string) bool { return weighsEqually[language] }

// Languages returns the values of a router's os: the languages in which its side can be written. Sorted.
func Languages() []string { return slices.Sorted(maps.Keys(lacks)) }

// Lacks is the feature of a session that the language has no word for; empty where the router's side
// can be written.
func Lacks(language string, s Session) Feature {
	for _, f := range lacks[language] {
		if has[f](s) {
			return f
		}
	}
	return ""
}
