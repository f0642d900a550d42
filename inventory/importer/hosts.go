package importer

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"plinth.dev/plinth/inventory"
)

// The forms of labels and taints of Kubernetes.
var (
	labelKey   = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
)

// machine is the one of a name, which another source or object made; nil: there is none.
func (d *draft) machine(name string) *inventory.Machine {
	return d.machineWith(func(m inventory.Machine) bool { return m.Name == name })
}

// machineAt is the one that has an address; nil: none has, or the text is no address.
func (d *draft) machineAt(text string) *inventory.Machine {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return nil
	}
	return d.machineWith(hasAddress(addr))
}

// machineWith is the first machine for which a condition holds; nil: there is none.
func (d *draft) machineWith(is func(inventory.Machine) bool) *inventory.Machine {
	for i := range d.inv.Racks {
		if j := slices.IndexFunc(d.inv.Racks[i].Machines, is); j >= 0 {
			return &d.inv.Racks[i].Machines[j]
		}
	}
	return nil
}

// addMachine adds a machine to its rack, with the objects that it was made of.
func (d *draft) addMachine(machine inventory.Machine, from ...*object) {
	to := d.rack(machine.Rack)
	to.Machines = append(to.Machines, machine)
	for _, o := range from {
		d.comment(fmt.Sprintf("spec.racks[%s].machines[%s]", machine.Rack, machine.Name), o)
	}
}

// hasAddress reports of a machine whether it has an address.
func hasAddress(addr netip.Addr) func(inventory.Machine) bool {
	return func(m inventory.Machine) bool {
		return slices.Contains(m.Addresses, addr) || slices.Contains(m.ExternalAddresses, addr)
	}
}

// unusable returns the reason why an address can be that of no further machine or router; empty: it can. A machine that is being made is not in the draft yet.
func (d *draft) unusable(addr netip.Addr, making ...inventory.Machine) string {
	if addr.IsLoopback() || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() || addr.Is4In6() || addr.Zone() != "" {
		return "is no address that other machines reach it by"
	}
	if slices.ContainsFunc(making, hasAddress(addr)) {
		return "is there already"
	}
	if m := d.machineAt(addr.String()); m != nil {
		return "is the address of machine " + m.Name + ", too"
	}
	for _, r := range d.inv.Routers {
		if slices.Contains(r.Addresses, addr) {
			return "is the address of router " + r.Name + ", too"
		}
	}
	return ""
}
