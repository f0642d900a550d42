package importer

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory/document"
)

// Options are the settings of an import.
type Options struct {
	// Sources are the names of those that are read, in this order; see [Sources].
	Sources []string
	// Name is the inventory's metadata.name. Default: imported.
	Name string
	// RackBy is the label of Nodes whose value is the name of their rack. Default: the label in selectors of peers, else
	// topology.kubernetes.io/zone. Of Ansible's hosts it is the variable that names it, or what the names of the groups begin with that
	// are racks. Default: the variable rack, else zone.
	RackBy string
	// Addresses are the addresses of Nodes that report none, by the names of the Nodes; see [WithoutAddress].
	Addresses map[string][]netip.Addr
	// RackBySubnet makes a rack of each network that Nodes lie in, as far as these are told apart by a guess, where no Node has the label
	// that racks are made by.
	RackBySubnet bool
	// Labels takes labels of Nodes into the inventory, besides those of place and type. They stay on the Nodes in any case.
	Labels bool
	// PodNetwork takes the pod CIDRs of Nodes into the inventory: Plinth is to route them, in place of a CNI.
	PodNetwork bool
	// Roles and RouterRoles are the slugs of NetBox's device roles that machines and routers have. Default: k8s-node, tor.
	Roles, RouterRoles []string
}

// Kind is a kind of object that a source reads.
type Kind struct {
	Group, Version, Kind string
	Namespace            string // where objects of it are looked for in a cluster; empty: everywhere
}

// kindsOf are kinds of one group and version.
func kindsOf(group, version string, names ...string) (all []Kind) {
	for _, name := range names {
		all = append(all, Kind{Group: group, Version: version, Kind: name})
	}
	return all
}

// inNamespace are kinds that are looked for in one namespace alone.
func inNamespace(namespace string, all []Kind) []Kind {
	for i := range all {
		all[i].Namespace = namespace
	}
	return all
}

// source reads the configuration of one other program.
type source struct {
	name  string
	kinds []Kind // to ask a cluster for, each in its newest version
	read  func(*draft)
}

// knowsAsOwn reports whether an object is of a kind that this source reads and no other program has: a Node, or one of a group of its own.
func (s source) knowsAsOwn(o *object) bool {
	own := s.name == "nodes" || strings.Contains(o.group(), ".")
	return own && slices.ContainsFunc(s.kinds, func(k Kind) bool { return k.Kind == o.kind && k.Group == o.group() })
}

// sources are all of them, in the order of their reading: what others refer to comes first.
var sources = []source{
	{"nodes", nodeKinds, readNodes},
	{"ansible", nil, readAnsible},
	{"netbox", nil, readNetBox},
	{"metallb", metalLBKinds, readMetalLB},
	{"kube-vip", kubeVIPKinds, readKubeVIP},
	{"cilium", ciliumKinds, readCilium},
	{"servicelb", serviceLBKinds, readServiceLB},
}

// Sources are the names of all that can be imported, sorted.
func Sources() (names []string) {
	for _, s := range sources {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return names
}

// KindsOf are the kinds of objects that some sources read, each once: in all namespaces where one of them asks for that.
func KindsOf(names ...string) (kinds []Kind) {
	for _, s := range sources {
		if !slices.Contains(names, s.name) {
			continue
		}
		for _, kind := range s.kinds {
			everywhere := kind
			everywhere.Namespace = ""
			same := func(have Kind) bool { have.Namespace = ""; return have == everywhere }
			switch i := slices.IndexFunc(kinds, same); {
			case i < 0:
				kinds = append(kinds, kind)
			case kinds[i].Namespace != kind.Namespace:
				kinds[i].Namespace = ""
			}
		}
	}
	return kinds
}

// Import writes the inventory that some documents tell of. The text is valid (see [document.Parse]) where no note is an error, and nil
// else.
func Import(options Options, docs ...document.Document) ([]byte, Notes) {
	d := draftOf(options, docs)
	d.complete()
	return d.write("plinth import " + strings.Join(options.Sources, ","))
}

// write is the inventory, made by a command, and all notes.
func (d *draft) write(command string) ([]byte, Notes) {
	d.finish()
	if d.notes.Failed() {
		return nil, d.notes
	}
	d.comments[""] = []string{"Made by " + command + "."}
	text := document.FormatNoted(&d.inv, d.comments)
	if _, problems := document.Parse(document.Document{Source: "the inventory", Data: text}); problems.Err() != nil {
		for _, p := range problems.Errors() {
			d.notes = append(d.notes, Note{Severity: Error, Code: NotValid, Message: fmt.Sprintf("the inventory would not be valid: %v", p)})
		}
		return nil, d.notes
	}
	return text, d.notes
}

// draftOf reads all sources.
func draftOf(options Options, docs []document.Document) *draft {
	objects, unread := readObjects(docs, options.Sources...)
	made := &draft{
		notebook: notebook{unread}, names: names{map[givenName]bool{}},
		comments: map[string][]string{}, objects: objects, racks: map[string]string{}, options: options,
	}
	if !slices.ContainsFunc(docs, func(doc document.Document) bool { return len(bytes.TrimSpace(doc.Data)) > 0 }) {
		made.notes = append(made.notes, Note{Severity: Error, Code: NotRead, Message: "nothing is there to be read"})
	}
	for _, s := range sources {
		if slices.Contains(options.Sources, s.name) {
			made.readPart(s)
		}
	}
	return made
}
