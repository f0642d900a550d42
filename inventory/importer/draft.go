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
	inv      inventory.Inventory
	comments map[string][]string // by path; see [inventory.Inventory.FormatNoted]
	notes    Notes
	objects  []*object
	nodes    []node // that were read from the cluster: with all their labels
	peerings []peering
	names    map[named]map[string]bool // that are given; see newName
	racks    map[string]string         // names by what they stand for; see rackFor
	held     []heldRange               // by their first address
	excludes []func()                  // what takes addresses out of pools, once all pools are there
	parts    []part                    // what each source added
	leftOut  bool                      // the source that is read has a router that could not be carried over
	options  Options
}

// of are the objects of a kind, in the order in which they were written. Of an object that is there twice, as in a folder and in a list, the
// first is read.
func (d *draft) of(group, kind string) (all []*object) {
	first := map[string]*object{}
	for _, o := range d.objects {
		if o.kind != kind || o.group() != group {
			continue
		}
		key := o.namespace + "/" + o.name
		if again := first[key]; again != nil {
			if !o.read {
				o.mark(noted, "")
				d.note(o, "", Differs, fmt.Sprintf("is there a second time and not read; the first is at %v", again.position("")))
				d.ofWhole()
			}
			o.read = true
			continue
		}
		o.read = true
		first[key] = o
		all = append(all, o)
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

// note tells what became of the fields at and below a path of an object.
func (d *draft) note(o *object, path string, code Code, message string) {
	d.tell(Told, o, path, code, message)
}

// fail tells what is not valid where it came from.
func (d *draft) fail(o *object, path string, code Code, message string) {
	d.tell(Error, o, path, code, message)
}

func (d *draft) tell(severity Severity, o *object, path string, code Code, message string) {
	d.notes = append(d.notes, Note{Position: o.position(path), Severity: severity, Code: code, Object: o.String(), Path: path, Message: message, of: o})
}

// drop notes that fields are not carried over, as far as they are written.
func (d *draft) drop(o *object, path, message string) {
	if o.has(path) {
		o.mark(noted, path)
		d.note(o, path, NoCounterpart, message)
	}
}

// dropUnless is drop, but for a value that says what goes without saying.
func (d *draft) dropUnless(o *object, path, implied, message string) {
	if n := o.at(path); n != nil && n.Value == implied {
		o.mark(meaningless, path)
		return
	}
	d.drop(o, path, message)
}

// leaveOut tells why nothing of an object is in the inventory, in the place of all that was told of it.
func (d *draft) leaveOut(o *object, path string, code Code, message string) {
	o.override("")
	o.mark(meaningless, "apiVersion", "kind", "metadata", "status")
	o.mark(noted, "metadata.name")
	d.notes = slices.DeleteFunc(d.notes, func(n Note) bool { return n.of == o })
	d.note(o, path, code, message)
	d.ofWhole()
}

// ofWhole says that the last note is of all of its object.
func (d *draft) ofWhole() { d.notes[len(d.notes)-1].whole = true }

// comment says beside a thing of the inventory where it came from.
func (d *draft) comment(path string, o *object) {
	line := strings.Map(printable, "from "+o.String())
	if !slices.Contains(d.comments[path], line) {
		d.comments[path] = append(d.comments[path], line)
	}
}

// printable keeps what a source wrote from ending a line of comment, or of a note.
func printable(r rune) rune {
	if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
		return ' '
	}
	return r
}

// finish notes all that no source spoke of.
func (d *draft) finish() {
	for _, o := range d.objects {
		if !o.read {
			d.note(o, "", NotRead, "is nothing that the import of "+inWords(d.options.Sources)+" reads"+readElsewhere(o))
			d.ofWhole()
			continue
		}
		for _, l := range o.leaves() {
			if o.fateOf(l.path) == "" {
				o.mark(noted, l.path)
				d.note(o, l.path, UnknownField, "is not known here, and not carried over")
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

// secretName is what Kubernetes lets a Secret be called.
var secretName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// namesSecret reports whether a Secret can have a name that an object says; else it is noted, and the session has no password.
func (d *draft) namesSecret(o *object, path, name string) bool {
	if secretName.MatchString(name) {
		return true
	}
	if o.fates[path] == noted {
		return false // of another session
	}
	o.mark(noted, path)
	d.note(o, path, NotValid, fmt.Sprintf("no Secret can be called %q: the session has no password until passwordFrom says which one has it", name))
	return false
}

// newPool has all defaults of a pool.
func newPool(name string) inventory.Pool {
	return inventory.Pool{Name: name, AutoAssign: true, State: inventory.PoolActive}
}

// newAdvertise has all defaults of an advertisement.
func newAdvertise() inventory.Advertise {
	return inventory.Advertise{Aggregate: inventory.PrefixLengths{IPv4: 32, IPv6: 128}, LocalPref: 100}
}

// complete gives what is written down in a draft what goes without saying there, so that it is not written.
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
func (d *draft) coverMachines(r *inventory.Rack) {
	for _, m := range r.Machines {
		for _, a := range m.Addresses {
			family := func(s netip.Prefix) bool { return s.Addr().Is4() == a.Is4() }
			if !slices.ContainsFunc(r.Subnets, family) || slices.ContainsFunc(r.Subnets, func(s netip.Prefix) bool { return s.Contains(a) }) {
				continue
			}
			subnet := around(inventory.Range{First: a, Last: a})
			if slices.ContainsFunc(r.Subnets, subnet.Overlaps) || slices.ContainsFunc(d.inv.Pools, func(p inventory.Pool) bool { return slices.ContainsFunc(p.Ranges, inventory.RangeOf(subnet).Overlaps) }) {
				subnet = netip.PrefixFrom(a, a.BitLen())
			}
			r.Subnets = append(r.Subnets, subnet)
			d.notes = append(d.notes, Note{Severity: Told, Code: Guessed, Path: "spec.racks[" + r.Name + "].subnets", Message: fmt.Sprintf("%v of machine %s is taken to lie in %v: look whether that is the subnet's prefix length", a, m.Name, subnet)})
		}
	}
}
