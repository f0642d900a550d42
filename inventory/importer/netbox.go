package importer

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// netbox is the API group that NetBox's objects have here. They have none, nor a kind: their url says what they are, or their fields.
const netbox = "netbox"

// The kinds of NetBox's objects that are read.
const (
	netboxDevice  = "device"
	netboxVM      = "virtual-machine"
	netboxRack    = "rack"
	netboxPrefix  = "prefix"
	netboxAddress = "ip-address"
)

// netboxURLs are the kinds by the part of the API that has them.
var netboxURLs = map[string]string{
	"dcim/devices": netboxDevice, "virtualization/virtual-machines": netboxVM, "dcim/racks": netboxRack, "ipam/prefixes": netboxPrefix, "ipam/ip-addresses": netboxAddress,
}

var netboxURL = regexp.MustCompile(`/api/((?:plugins/)?[a-z0-9-]+/[a-z0-9-]+)/`)

// netboxPage reads a response of the REST API: a page with results, a list, or one object.
func netboxPage(source string, root *yaml.Node) ([]*object, Notes, bool) {
	items, results := []*yaml.Node{root}, child(root, "results")
	switch {
	case child(root, "kind") != nil && child(root, "apiVersion") != nil:
		return nil, nil, false
	case root.Kind == yaml.SequenceNode:
		items = root.Content
	case results != nil && results.Kind == yaml.SequenceNode && child(root, "count") != nil:
		items = results.Content
	}
	var all []*object
	for _, item := range items {
		kind := netboxKind(item)
		if kind == "" {
			return nil, nil, false
		}
		all = append(all, netboxObject(source, kind, item))
	}
	if next := child(root, "next"); results != nil && next != nil && next.Tag != "!!null" {
		at := inventory.Position{Source: source, Line: next.Line, Column: next.Column}
		return all, Notes{{Position: at, Severity: Told, Code: NotValid, Message: "there are further pages: give them, too, or ask for all at once (?limit=0)"}}, true
	}
	return all, nil, true
}

func netboxObject(source, kind string, root *yaml.Node) *object {
	item := &object{source: source, apiVersion: netbox + "/v1", kind: kind, root: root, fates: map[string]fate{}}
	for _, key := range []string{"name", "prefix", "address", "display", "id"} {
		if n := child(root, key); n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			item.name = n.Value
			break
		}
	}
	return item
}

// netboxKind returns the kind of an object, by its url, else by fields that no other kind has; empty: it is none of NetBox's.
func netboxKind(node *yaml.Node) string {
	if node.Kind != yaml.MappingNode {
		return ""
	}
	if u := child(node, "url"); u != nil {
		if m := netboxURL.FindStringSubmatch(u.Value); m != nil {
			if kind, ok := netboxURLs[m[1]]; ok {
				return kind
			}
			return m[1]
		}
	}
	has := func(keys ...string) bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return child(node, key) == nil })
	}
	switch {
	case has("device_type", "role"), has("device_type", "device_role"):
		return netboxDevice
	case has("u_height", "site"):
		return netboxRack
	case has("prefix", "status"):
		return netboxPrefix
	case has("address", "status"):
		return netboxAddress
	case has("vcpus", "cluster"):
		return netboxVM
	}
	return ""
}

// netboxPlace is the rack of a router, and the device that says so; empty: none with machines.
type netboxPlace struct {
	name   string
	object *object
}

// netboxReader carries devices over that have the roles of machines and of routers, and prefixes that are for Services.
type netboxReader struct {
	*draft
	roles, routerRoles []string
	units              map[string]string        // machine by its rack and unit
	serials            map[string]int           // how many devices have one
	sites              map[string]bool          // of machines
	known              []inventory.Machine      // of other sources
	asns               map[string]inventory.ASN // of machines, by rack
	pools              map[string]string        // names by descriptions
	ofRacks            map[string]netboxPlace   // of routers
	others             map[string]int           // devices of other roles
	dropped            map[string]int           // fields that are not carried over
	passed             map[string]int           // objects of other kinds
}

// The roles of devices that are read where nobody says others.
var (
	DefaultRoles       = []string{"k8s-node"}
	DefaultRouterRoles = []string{"tor"}
)

func readNetBox(draft *draft) {
	reader := &netboxReader{draft: draft, roles: draft.options.Roles, routerRoles: draft.options.RouterRoles, units: map[string]string{},
		serials: map[string]int{}, sites: map[string]bool{}, asns: map[string]inventory.ASN{}, ofRacks: map[string]netboxPlace{}, pools: map[string]string{}, others: map[string]int{}, dropped: map[string]int{}, passed: map[string]int{}}
	if len(reader.roles) == 0 {
		reader.roles = DefaultRoles
	}
	if len(reader.routerRoles) == 0 {
		reader.routerRoles = DefaultRouterRoles
	}
	machines, routers := reader.devices()
	for _, o := range machines {
		if _, n := reader.ref(o, "site"); n != nil {
			reader.sites[n.Value] = true
		}
		reader.serials[o.text("serial")]++
	}
	for _, rack := range draft.inv.Racks {
		reader.known = append(reader.known, rack.Machines...)
	}
	for _, o := range machines {
		reader.device(o)
	}
	reader.rackHeights()
	reader.machineASNs()
	for _, o := range routers {
		reader.router(o)
	}
	reader.peerRouters()
	reader.prefixes()
	draft.excludes = append(draft.excludes, reader.givenAddresses, reader.summary)
}

// kindOf are the objects of a kind, each once: pages overlap, and names are those of a site.
func (r *netboxReader) kindOf(kind string) (all []*object) {
	first := map[string]*object{}
	for _, item := range r.objects {
		if item.group() != netbox || item.kind != kind {
			continue
		}
		id := item.text("id")
		if again := first[id]; id != "" && again != nil {
			item.read, item.fates = true, map[string]fate{"": noted}
			r.note(item, "", Differs, fmt.Sprintf("is there a second time and not read; the first is at %v", again.position("")))
			r.ofWhole()
			continue
		}
		item.read, first[id] = true, item
		all = append(all, item)
	}
	return all
}

// devices returns the devices that are machines and routers. The others are counted.
func (r *netboxReader) devices() (machines, routers []*object) {
	for _, object := range append(r.kindOf(netboxDevice), r.kindOf(netboxVM)...) {
		key := "role"
		if object.at(key) == nil {
			key = "device_role"
		}
		path, n := r.ref(object, key)
		role := ""
		if n != nil {
			role = n.Value
		}
		switch {
		case slices.Contains(r.roles, role):
			machines = append(machines, object)
		case slices.Contains(r.routerRoles, role):
			routers = append(routers, object)
		default:
			object.fates = map[string]fate{"": meaningless}
			r.others[role]++
			continue
		}
		object.mark(meaningless, key)
		object.mark(carried, path)
	}
	return machines, routers
}

// ref returns the reference of an object under a key: the other's slug, else its name, else the text itself; nil: there is none.
func (r *netboxReader) ref(o *object, key string) (path string, node *yaml.Node) {
	node = o.at(key)
	if node == nil || node.Tag == "!!null" {
		return key, nil
	}
	if node.Kind == yaml.ScalarNode {
		return key, node
	}
	for _, below := range []string{"slug", "value", "name", "address"} {
		if v := child(node, below); v != nil && v.Kind == yaml.ScalarNode && v.Value != "" && v.Tag != "!!null" {
			return join(key, below), v
		}
	}
	return key, nil
}

// take is the text that a reference is carried over by.
func (r *netboxReader) take(object *object, key string) string {
	path, node := r.ref(object, key)
	if node == nil {
		return ""
	}
	object.mark(meaningless, key)
	object.mark(carried, path)
	return node.Value
}

// label is a text that becomes the value of a label; empty: there is none, or it cannot be one.
func (r *netboxReader) label(o *object, key string) string {
	text := r.take(o, key)
	if labelValue.MatchString(text) {
		return text
	}
	r.tellAt(o, key, NotValid, fmt.Sprintf("%q is no value of a label: it is left out", text))
	return ""
}

// netboxPlain are fields that say nothing of a datacenter, or that others say.
var netboxPlain = regexp.MustCompile(`^(id|url|display|display_url|name|created|last_updated|.*_count|face|airflow|comments|description|latitude|longitude|config_template|owner|primary_ip[46]?|serial|position|status|role|device_role|device_type|site|location|rack|uuid|notes_url|natural_slug|object_type)$`)

// rest counts the fields of a device that nothing was made of.
func (r *netboxReader) rest(object *object) {
	for field, node := range pairs(object.root) {
		key := field.Value
		if key == "custom_fields" && node.Kind == yaml.MappingNode {
			r.restOfCustom(object, node)
			continue
		}
		if slices.ContainsFunc(slices.Collect(maps.Keys(object.fates)), func(path string) bool { return path != "" && within(path, key) }) {
			if _, ok := object.fates[key]; !ok {
				object.mark(meaningless, key)
			}
			continue
		}
		object.mark(meaningless, key)
		if !netboxPlain.MatchString(key) && hasValue(node) {
			r.dropped[key]++
		}
	}
}

// restOfCustom counts the custom fields of a device that nothing was made of.
func (r *netboxReader) restOfCustom(o *object, fields *yaml.Node) {
	o.mark(meaningless, "custom_fields")
	for key, n := range pairs(fields) {
		path := join("custom_fields", key.Value)
		if _, spoken := o.fates[path]; !spoken && hasValue(n) {
			r.dropped[path]++
		}
	}
}

// hasValue reports whether anything is written in a field.
func hasValue(n *yaml.Node) bool {
	if n.Kind == yaml.ScalarNode {
		return n.Tag != "!!null" && n.Value != "" && n.Value != "false"
	}
	for i, c := range n.Content {
		if (n.Kind != yaml.MappingNode || i%2 == 1) && hasValue(c) {
			return true
		}
	}
	return false
}

// summary notes once what many objects have.
func (r *netboxReader) summary() {
	for _, o := range r.objects {
		if o.group() == netbox && !o.read {
			o.read, o.fates = true, map[string]fate{"": meaningless}
			r.passed[o.kind]++
		}
	}
	tell := func(code Code, counts map[string]int, message string) {
		if len(counts) > 0 {
			r.notes = append(r.notes, Note{Severity: Told, Code: code, Message: fmt.Sprintf(message, counted(counts))})
		}
	}
	tell(NotRead, r.others, "devices of other roles are not read: %s. --role and --router-role name those that are machines and routers")
	tell(NoCounterpart, r.dropped, "fields of devices are not carried over, for an inventory has none such: %s")
	tell(NotRead, r.passed, "objects of other kinds are not read: %s")
}

// counted are names with how often each is there.
func counted(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
