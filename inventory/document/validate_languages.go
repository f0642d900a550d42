package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// turnedOn says where in a document a feature is turned on, where not in the router alone, and what to write for the
// router to do without it.
var turnedOn = map[inventory.Feature]struct {
	where   func(*rawSession) *yaml.Node
	without string
}{
	inventory.OtherPort: {without: "port: 179"},
	inventory.UsesBFD:   {func(r *rawSession) *yaml.Node { return r.BFD.node }, `bfd: "off"`},
	inventory.TTL:       {func(r *rawSession) *yaml.Node { return r.TTLSecurity.node }, "ttlSecurity: false"},
	inventory.TTLOfIBGP: {func(r *rawSession) *yaml.Node { return r.TTLSecurity.node }, "ttlSecurity: false"},
}

// systems refuses a router's os that nothing can be written for.
func (v sessionChecks) systems() {
	for _, r := range v.raw.allRouters() {
		if r.OS.given() && !slices.Contains(inventory.Languages(), r.OS.v) {
			v.refuse(r.OS.node, refusal{code: inventory.UnknownWord, message: "is no system that router-config writes for",
				accepted: strings.Join(inventory.Languages(), ", ") + ", or no os for a router whose side you write by hand", suggestion: wordMeant(r.OS.v, inventory.Languages())})
		}
	}
}

// writable refuses a session whose other end cannot be written in the router's language, once
// a router.
func (v sessionChecks) writable(raw *rawRack, s inventory.Session) {
	router := v.raw.router(s.Router)
	if !router.OS.given() || v.unwritable[s.Router] {
		return
	}
	lacks := inventory.Lacks(router.OS.v, s)
	if lacks == "" {
		return
	}
	if v.unwritable == nil {
		v.unwritable = map[string]bool{}
	}
	v.unwritable[s.Router] = true
	where := cmp.Or(router.Port.node, router.Address.node, router.Addresses.node)
	f := turnedOn[lacks]
	if f.where != nil {
		said := v.raw.session(raw, router)
		where = f.where(&said)
	}
	byHand := "no os for a router whose side you write by hand"
	if f.without != "" {
		byHand = f.without + " for this router, or " + byHand
	}
	v.refuse(router.OS.node, refusal{code: inventory.CannotWrite, message: fmt.Sprintf("%s cannot do %s, which the sessions of rack %s with this router use", router.OS.v, lacks, raw.Name.v),
		accepted: byHand, suggestion: f.without}, where)
}
