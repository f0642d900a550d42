package importer

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"plinth.dev/plinth/inventory"
)

// draft is an inventory in the making.
type draft struct {
	notebook
	names
	heldRanges
	inv      inventory.Inventory
	comments map[string][]string // by path; see [inventory.Inventory.FormatNoted]
	objects  []*object
	nodes    []node // that were read from the cluster: with all their labels
	peerings []peering
	racks    map[string]string // names by what they stand for; see rackFor
	excludes []func()          // what takes addresses out of pools, once all pools are there
	parts    []part            // what each source added
	leftOut  bool              // the source that is read has a router that could not be carried over
	options  Options
}

// of are the objects of a kind, in the order in which they were written. Of an object that is there twice, as in a folder and in a list, the
// first is read.
func (d *draft) of(group, kind string) (all []*object) {
	first := map[string]*object{}
	for _, obj := range d.objects {
		if obj.kind != kind || obj.group() != group {
			continue
		}
		key := obj.namespace + "/" + obj.name
		if again := first[key]; again != nil {
			if !obj.read {
				d.markAndNote(obj, "", Differs, fmt.Sprintf("is there a second time and not read; the first is at %v", again.position("")))
				d.ofWhole()
			}
			obj.read = true
			continue
		}
		obj.read = true
		first[key] = obj
		all = append(all, obj)
	}
	return all
}

// pass marks all objects of a kind as without meaning.
func (d *draft) pass(group string, kinds ...string) {
	for _, o := range d.objects {
		if o.group() == group && slices.Contains(kinds, o.kind) {
			o.read = true
			o.fates = map[string]fate{"": meaningless}
		}
	}
}

// leaveOutRouter records why the router at a path cannot be carried over.
func (d *draft) leaveOutRouter(o *object, path string, code Code, message string) {
	d.overrideAndNote(o, path, code, message)
	d.leftOut = true
}

// comment adds the origin of a thing of the inventory as a comment beside it.
func (d *draft) comment(path string, o *object) {
	line := strings.Map(printable, "from "+o.String())
	if !slices.Contains(d.comments[path], line) {
		d.comments[path] = append(d.comments[path], line)
	}
}

// printable replaces runes that end a line by a blank, so that text of a source ends no comment and no note.
func printable(r rune) rune {
	if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
		return ' '
	}
	return r
}

// finish notes all that no source spoke of.
func (d *draft) finish() {
	for _, obj := range d.objects {
		if !obj.read {
			d.note(obj, "", NotRead, "is nothing that the import of "+inWords(d.options.Sources)+" reads"+readElsewhere(obj))
			d.ofWhole()
			continue
		}
		for _, l := range obj.leaves() {
			if obj.fateOf(l.path) == "" {
				d.markAndNote(obj, l.path, UnknownField, "is not known here, and not carried over")
			}
		}
	}
	d.notes.sort()
}

// readElsewhere names the source that an object is of, if there is one: Nodes, and what has a group of its own, are of one.
func readElsewhere(o *object) string {
	for _, s := range sources {
		if s.knowsAsOwn(o) {
			return ": plinth import " + s.name + " does"
		}
	}
	return ""
}

// inWords is a list as it stands in a sentence.
func inWords(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// rack is the one of a name, which is made where there is none.
func (d *draft) rack(name string) *inventory.Rack {
	for i := range d.inv.Racks {
		if d.inv.Racks[i].Name == name {
			return &d.inv.Racks[i]
		}
	}
	d.inv.Racks = append(d.inv.Racks, inventory.Rack{Name: name})
	return &d.inv.Racks[len(d.inv.Racks)-1]
}

// addressIn reads an address with or without a prefix length.
func addressIn(text string) (netip.Addr, error) {
	text, _, _ = strings.Cut(text, "/")
	return netip.ParseAddr(text)
}

// secretCommand makes a Secret for a session's password in Plinth's namespace.
func secretCommand(name string) string {
	return fmt.Sprintf("kubectl -n plinth-system create secret generic %s --from-literal=password=THE-PASSWORD", name)
}

// copySecretCommand makes one of a key of another Secret of that name.
func copySecretCommand(namespace, name, key string) string {
	return fmt.Sprintf(`kubectl -n plinth-system create secret generic %[2]s --from-literal=%[3]s="$(kubectl -n %[1]s get secret %[2]s -o go-template='{{index .data %[3]q | base64decode}}')"`, namespace, name, key)
}

// secretName matches the names that Kubernetes accepts for a Secret.
var secretName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// newPool has all defaults of a pool.
func newPool(name string) inventory.Pool {
	return inventory.Pool{Name: name, AutoAssign: true, State: inventory.PoolActive}
}

// newAdvertise has all defaults of an advertisement.
func newAdvertise() inventory.Advertise {
	return inventory.Advertise{Aggregate: inventory.PrefixLengths{IPv4: 32, IPv6: 128}, LocalPref: 100}
}

// put sets a key of a map, which is made where there is none.
func put[V any](to *map[string]V, key string, value V) {
	if *to == nil {
		*to = map[string]V{}
	}
	(*to)[key] = value
}

// complete fills in the defaults and whatever follows from the rest of a draft.
func (d *draft) complete() {
	inv := &d.inv
	inv.Name = cmp.Or(inv.Name, d.options.Name, "imported")
	d.peerRacks()
	d.ourASNs()
	d.keepRouters()
	for i := range inv.Racks {
		d.coverMachines(&inv.Racks[i])
	}
	for _, exclude := range d.excludes {
		exclude()
	}
	d.excludeHosts()
	for i := range inv.Pools {
		if len(inv.Pools[i].Advertise) == 0 {
			inv.Pools[i].Advertise = []inventory.Advertise{newAdvertise()}
		}
	}
}

// coverMachines gives a rack that has subnets of a family those of all its machines, which have to lie in them. Nobody wrote their lengths down.
func (d *draft) coverMachines(rack *inventory.Rack) {
	for _, machine := range rack.Machines {
		for _, addr := range machine.Addresses {
			family := func(s netip.Prefix) bool { return s.Addr().Is4() == addr.Is4() }
			if !slices.ContainsFunc(rack.Subnets, family) || slices.ContainsFunc(rack.Subnets, func(s netip.Prefix) bool { return s.Contains(addr) }) {
				continue
			}
			subnet := around(inventory.Range{First: addr, Last: addr})
			if slices.ContainsFunc(rack.Subnets, subnet.Overlaps) || slices.ContainsFunc(d.inv.Pools, func(p inventory.Pool) bool { return slices.ContainsFunc(p.Ranges, inventory.RangeOf(subnet).Overlaps) }) {
				subnet = netip.PrefixFrom(addr, addr.BitLen())
			}
			rack.Subnets = append(rack.Subnets, subnet)
			d.guess("spec.racks["+rack.Name+"].subnets", fmt.Sprintf("%v of machine %s is taken to lie in %v: look whether that is the subnet's prefix length", addr, machine.Name, subnet))
		}
	}
}
