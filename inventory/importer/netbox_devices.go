package importer

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"plinth.dev/plinth/inventory"
)

// device makes a machine of a device.
func (r *netboxReader) device(object *object) {
	if n := object.at("name"); n == nil || n.Tag == "!!null" || n.Value == "" {
		r.leaveOutOf(object, "name", NotValid, "has no name, which is to be that of its Node: it is left out")
		return
	}
	name, same := cleanName(object.text("name"))
	if r.machine(name) != nil {
		r.leaveOutOf(object, "name", Differs, fmt.Sprintf("machine %s is there already, by another source or device: what that one says counts, and nothing of this is added. Where it is another machine, give each the name of its Node in NetBox", name))
		return
	}
	if other, path, by := r.sameMachine(object); other != "" {
		r.leaveOutOf(object, path, Differs, fmt.Sprintf("machine %s of another source has %s: it is taken for this device, %q. What that source says counts, and nothing of this is added", other, by, object.text("name")))
		return
	}
	object.mark(carried, "name")
	if !same {
		r.note(object, "name", Renamed, fmt.Sprintf("the machine is named %q: look whether its Node is", name))
	}
	machine := inventory.Machine{Name: name, ID: name, Type: r.label(object, "device_type")}
	r.serial(object, &machine)
	r.addresses(object, &machine)
	machine.Rack = r.rackOf(object)
	r.position(object, &machine)
	machine.OwnState = r.state(object)
	if len(machine.Addresses) == 0 && machine.OwnState == inventory.StateActive {
		machine.OwnState = inventory.StatePlanned
		r.note(object, "", Guessed, "the device has no primary address: the machine is planned. Give it its addresses, and take the state away")
	}
	machine.State = machine.OwnState
	r.asnOf(object, machine.Rack)
	r.rest(object)
	r.addMachine(machine, object)
}

// sameMachine is the machine of another source that a device with another name is, by its serial number or else by an address; empty: none is. An address is not
// enough where both have a serial number, and not the same.
func (r *netboxReader) sameMachine(object *object) (name, path, by string) {
	if serial := object.text("serial"); serial != "" && r.serials[serial] == 1 {
		for _, m := range r.known {
			if m.ID == serial && m.ID != m.Name {
				return m.Name, "serial", "the same id, " + serial
			}
		}
	}
	for _, key := range []string{"primary_ip4", "primary_ip6"} {
		at, n := r.ref(object, key)
		if n == nil {
			continue
		}
		addr, err := addressIn(n.Value)
		for _, machine := range r.known {
			if err == nil && (slices.Contains(machine.Addresses, addr) || slices.Contains(machine.ExternalAddresses, addr)) {
				if object.text("serial") != "" && r.serials[object.text("serial")] == 1 && machine.ID != machine.Name {
					r.note(object, "serial", Differs, fmt.Sprintf("%q; machine %s of another source has the same address, %v, and the id %q: they are taken for two machines. Correct the serial number, or the address", object.text("serial"), machine.Name, addr, machine.ID))
					continue
				}
				return machine.Name, at, fmt.Sprintf("the same address, %v", addr)
			}
		}
	}
	return "", "", ""
}

// machineID matches the IDs that a providerID may have.
var machineID = regexp.MustCompile(`^[A-Za-z0-9._~:-]{1,200}$`)

// leaveOutOf is leaveOut for an object whose fields are not those of Kubernetes.
func (r *netboxReader) leaveOutOf(o *object, path string, code Code, message string) {
	r.leaveOut(o, path, code, message)
	o.fates = map[string]fate{"": meaningless, path: noted}
}

// serial is the machine's id, where it has one of its own.
func (r *netboxReader) serial(object *object, machine *inventory.Machine) {
	switch serial := object.text("serial"); {
	case serial == "" || object.at("serial").Tag == "!!null":
	case r.serials[serial] > 1:
		r.markAndNote(object, "serial", NotValid, fmt.Sprintf("%q is that of %d devices: the machine's id is its name", serial, r.serials[serial]))
	case !machineID.MatchString(serial):
		r.markAndNote(object, "serial", NotValid, fmt.Sprintf("%q is nothing that an id is made of: the machine's id is its name", serial))
	default:
		machine.ID = serial
		object.mark(carried, "serial")
	}
}

// addresses are the primary ones, without their prefix lengths: prefixes say what subnets there are.
func (r *netboxReader) addresses(object *object, machine *inventory.Machine) {
	for _, key := range []string{"primary_ip4", "primary_ip6"} {
		text := r.take(object, key)
		if text == "" {
			continue
		}
		addr, err := addressIn(text)
		why := "is no address"
		if err == nil {
			why = r.unusable(addr)
		}
		if why != "" {
			r.tellAt(object, key, NotValid, fmt.Sprintf("%s %s: it is left out", text, why))
			continue
		}
		machine.Addresses = append(machine.Addresses, addr)
	}
}

// tellAt notes the text that a reference is read by.
func (r *netboxReader) tellAt(o *object, key string, code Code, message string) {
	path, _ := r.ref(o, key)
	r.markAndNote(o, path, code, message)
}

// rackKey returns the key of a rack, with its site where needed: racks of several sites may have one name.
func (r *netboxReader) rackKey(o *object, rack string) string {
	_, site := r.ref(o, "site")
	if site == nil || len(r.sites) == 1 && r.sites[site.Value] {
		return rack // as others name it, with which it is joined
	}
	return site.Value + "/" + rack
}

// rackOf is the rack of a device. Of one site its region is told and the rack's zone is the location; of several a zone is the site,
// with the location. Devices in no rack are in one for each site.
func (r *netboxReader) rackOf(object *object) string {
	site, location, given := r.label(object, "site"), r.label(object, "location"), r.take(object, "rack")
	zone, fallback := location, ""
	if len(r.sites) > 1 {
		zone, fallback = strings.Trim(site+"-"+location, "-"), site
	} else {
		r.inv.Region = cmp.Or(r.inv.Region, site)
		if path, _ := r.ref(object, "site"); site != "" && r.inv.Region != site {
			r.markAndNote(object, path, Differs, fmt.Sprintf("%q; another source says region %q, and an inventory has one: this one is left out", site, r.inv.Region))
		}
	}
	key := r.rackKey(object, given)
	name, sameZone := r.rackFor(key, cmp.Or(given, fallback), zone, func(message string) {
		path, _ := r.ref(object, "rack")
		r.note(object, path, Renamed, message)
	})
	if !sameZone {
		object.mark(meaningless, "location")
		path, n := r.ref(object, "location")
		if n == nil {
			path = ""
		} else {
			object.mark(noted, path)
		}
		r.note(object, path, Differs, fmt.Sprintf("%q; other devices of rack %s are in %q, and a rack has one zone: the first one's is taken", zone, name, r.rack(name).Zone))
	}
	return name
}

// position is the lowest unit of a machine.
func (r *netboxReader) position(object *object, machine *inventory.Machine) {
	node := object.at("position")
	if node == nil || node.Tag == "!!null" || node.Value == "" {
		return
	}
	object.mark(carried, "position")
	tell := func(format string, args ...any) {
		r.markAndNote(object, "position", NoCounterpart, fmt.Sprintf(format, args...))
	}
	unit, err := strconv.ParseFloat(node.Value, 64)
	if err != nil || unit < 1 || unit > 100 || unit != float64(int(unit)) {
		tell("%s is no whole unit of a rack: it is left out", node.Value)
		return
	}
	key := fmt.Sprintf("%s/%d", machine.Rack, int(unit))
	if other := r.units[key]; other != "" {
		tell("machine %s stands there, too: it is left out", other)
		return
	}
	r.units[key] = machine.Name
	machine.Unit = int(unit)
}

// state returns the machine's state for NetBox's status. No machine is retired by an import, for that deletes its Node.
func (r *netboxReader) state(object *object) inventory.State {
	status := r.take(object, "status")
	state, known := netboxStates[status]
	switch {
	case !known:
		r.tellAt(object, "status", Guessed, fmt.Sprintf("%q is no status that is known here: the machine is planned", status))
		state = inventory.StatePlanned
	case status == "decommissioning":
		r.tellAt(object, "status", ByHand, "decommissioning: the machine is off. Write state: retired once its Node may be deleted")
	}
	return state
}

// netboxStates are the states of machines by the status of their devices.
var netboxStates = map[string]inventory.State{
	"": inventory.StateActive, "active": inventory.StateActive,
	"planned": inventory.StatePlanned, "staged": inventory.StatePlanned, "inventory": inventory.StatePlanned,
	"failed": inventory.StateOff, "offline": inventory.StateOff, "decommissioning": inventory.StateOff,
}

// asnIn is the custom field asn of a device; 0: it has none.
func (r *netboxReader) asnIn(object *object) inventory.ASN {
	n := object.at("custom_fields.asn")
	if n == nil || n.Tag == "!!null" || n.Value == "" {
		return 0
	}
	asn, err := strconv.ParseUint(n.Value, 10, 32)
	if err != nil || asn == 0 {
		r.markAndNote(object, "custom_fields.asn", NotValid, "is no AS number: it is left out")
		return 0
	}
	object.mark(carried, "custom_fields.asn")
	return inventory.ASN(asn)
}

// asnOf keeps the AS number of a machine, which all of its rack have.
func (r *netboxReader) asnOf(object *object, rack string) {
	asn := r.asnIn(object)
	switch have := r.asns[rack]; {
	case asn == 0 || have == asn:
	case have != 0:
		r.markAndNote(object, "custom_fields.asn", Differs, fmt.Sprintf("%v; other machines of rack %s have %v, and a rack has one AS number: the first one's is taken", asn, rack, have))
	default:
		r.asns[rack] = asn
	}
}

// machineASNs sets the machines' AS numbers: the first rack's is that of the inventory, and others have their own.
func (r *netboxReader) machineASNs() {
	for i := range r.inv.Racks {
		rack := &r.inv.Racks[i]
		rack.ASN = cmp.Or(r.asns[rack.Name], rack.ASN)
		r.inv.BGP.ASN = cmp.Or(r.inv.BGP.ASN, rack.ASN)
	}
}

// rackHeights takes the heights of racks that machines stand in.
func (r *netboxReader) rackHeights() {
	for _, object := range r.kindOf(netboxRack) {
		name, ok := r.racks[r.rackKey(object, object.text("name"))]
		height, err := strconv.Atoi(object.text("u_height"))
		object.fates = map[string]fate{"": meaningless}
		if !ok || err != nil || height < 1 {
			continue
		}
		rack := r.rack(name)
		rack.Units = height
		if i := slices.IndexFunc(rack.Machines, func(m inventory.Machine) bool { return m.Unit > height }); i >= 0 {
			r.markAndNote(object, "u_height", NotValid, fmt.Sprintf("machine %s stands at unit %d, above the top: the height is left out", rack.Machines[i].Name, rack.Machines[i].Unit))
			rack.Units = 0
			continue
		}
		path, _ := r.ref(object, "site")
		object.mark(carried, "name", "u_height", path)
	}
}

// router makes a router of a device: of the rack that it stands in with machines, else of all racks.
func (r *netboxReader) router(object *object) {
	name, same := r.newName(routerName, object.text("name"))
	state, asn := r.state(object), r.asnIn(object)
	addrs, wrong := r.primaryOf(object)
	switch {
	case wrong != "":
		r.leaveOutOf(object, "", NotValid, wrong+" is no address of a router, or that of another machine: the router is left out")
		return
	case state != inventory.StateActive:
		r.leaveOutOf(object, "", NotRead, "is not active: the router is left out")
		return
	case len(addrs) == 0:
		r.leaveOutOf(object, "", ByHand, "has no primary address: write the router with the one that machines reach it by. It is left out")
		return
	case asn == 0:
		r.leaveOutOf(object, "", ByHand, "has no custom field asn: write the router with the number of its AS. It is left out")
		return
	}
	object.mark(carried, "name")
	if !same {
		r.note(object, "name", Renamed, fmt.Sprintf("the router is named %q", name))
	}
	rack := ""
	if _, given := r.ref(object, "rack"); given != nil {
		if rack = r.racks[r.rackKey(object, given.Value)]; rack != "" {
			r.take(object, "rack")
			r.take(object, "site")
		}
	}
	r.rest(object)
	r.ofRacks[name] = netboxPlace{rack, object}
	r.comment("spec.routers["+name+"]", object)
	r.inv.Routers = append(r.inv.Routers, inventory.Router{Name: name, Addresses: addrs, ASN: asn, Port: 179})
}

// primaryOf are the primary addresses of a router, or the first that is none.
func (r *netboxReader) primaryOf(o *object) (addrs []netip.Addr, wrong string) {
	for _, key := range []string{"primary_ip4", "primary_ip6"} {
		text := r.take(o, key)
		if text == "" {
			continue
		}
		addr, err := addressIn(text)
		if err != nil || r.unusable(addr) != "" {
			return nil, text
		}
		addrs = append(addrs, addr)
	}
	return addrs, ""
}

// peerRouters gives racks their own routers, and those that have none all others.
func (r *netboxReader) peerRouters() {
	own := map[string]bool{}
	for _, rack := range r.ofRacks {
		own[rack.name] = true
	}
	delete(own, "")
	var without []string // racks
	for _, rack := range r.inv.Racks {
		if len(own) > 0 && !own[rack.Name] {
			without = append(without, rack.Name)
		}
	}
	if len(own) > 0 && without == nil {
		without = []string{} // of nobody
	}
	for _, router := range r.inv.Routers {
		switch rack, ours := r.ofRacks[router.Name]; {
		case rack.name != "":
			r.peer(peering{router: router.Name, racks: []string{rack.name}, object: rack.object, places: []string{"rack", "site"}})
		case ours:
			r.peer(peering{router: router.Name, racks: without})
		}
	}
}
