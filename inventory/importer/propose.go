package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// Answers are the answers of a person, and the addresses that the cluster uses.
type Answers struct {
	Router    netip.Addr        // that speaks BGP with the machines; invalid: there is none, and machines answer on their own link
	RouterASN inventory.ASN     // of the router
	ASN       inventory.ASN     // of the machines
	Pool      []inventory.Range // that Services get addresses of; empty: some are proposed
	Network   netip.Prefix      // of the machines; invalid: nobody said it, and it is guessed
	Used      []netip.Prefix    // that nothing may be proposed of: those of Nodes, their pods and Services
}

// OwnKinds are the kinds that [Present] knows sources by: Nodes, and those that no other program has, such as MetalLB's.
func OwnKinds() (kinds []Kind) {
	for _, s := range sources {
		for _, k := range s.kinds {
			if s.name == "nodes" || strings.Contains(k.Group, ".") {
				kinds = append(kinds, k)
			}
		}
	}
	return kinds
}

// Present are the sources that some documents have an object of which nobody else has, in the order of their reading; see [OwnKinds].
func Present(docs ...document.Document) (names []string) {
	objects, _ := readObjects(docs)
	for _, s := range sources {
		if slices.ContainsFunc(objects, s.knowsAsOwn) {
			names = append(names, s.name)
		}
	}
	return names
}

// Propose writes the first inventory of a cluster: its Nodes as machines, what another balancer of it has, and the rest from answers. Where
// nobody says which addresses Services get, some of the machines' own network are proposed. The text is valid where no note is an error, and
// nil else.
func Propose(options Options, answers Answers, docs ...document.Document) ([]byte, Notes) {
	made := draftOf(options, docs)
	if answers.Router.IsValid() {
		made.addRouter(answers)
	} else if len(made.inv.Routers) == 0 {
		made.addSubnets(answers.Network)
	}
	switch {
	case len(answers.Pool) > 0:
		made.addPool(answers.Pool, "as it was said")
	case len(made.inv.Pools) > 0:
	case answers.Router.IsValid():
		made.tellInventory(ByHand, "spec.pools", "say which addresses Services get (--pool): with a router they are of no network of the machines")
	default:
		made.proposePool(answers)
	}
	made.complete()
	return made.write("plinth init")
}

// Free is the block of addresses that [Propose] proposes; false: there is none, or a router decides.
func Free(options Options, answers Answers, docs ...document.Document) (inventory.Range, bool) {
	if answers.Router.IsValid() {
		return inventory.Range{}, false
	}
	return draftOf(options, docs).free(answers)
}

// WithoutAddress are the names of the Nodes that report no address, and that [Options] gives none: those that wait for their first cloud
// provider, and whose kubelet was not told one by --node-ip.
func WithoutAddress(options Options, docs ...document.Document) (names []string) {
	for _, r := range draftOf(options, docs).inv.Racks {
		for _, m := range r.Machines {
			if len(m.Addresses) == 0 {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// Network is the one that all machines are taken to be in; empty: there are several, or none.
func Network(options Options, docs ...document.Document) string {
	var all []netip.Prefix
	for _, r := range draftOf(options, docs).inv.Racks {
		for _, s := range subnetsOf(r.Machines) {
			if s.Addr().Is4() && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	if len(all) != 1 {
		return ""
	}
	return all[0].String()
}

func (d *draft) addRouter(a Answers) {
	name, _ := d.newName(routerName, "gateway")
	d.inv.BGP.ASN = a.ASN
	d.peer(peering{router: name})
	d.inv.Routers = append(d.inv.Routers, inventory.Router{Name: name, Addresses: []netip.Addr{a.Router}, ASN: a.RouterASN, Port: 179})
	d.comments["spec.routers["+name+"]"] = []string{"as it was said"}
}

// addSubnets gives each rack the subnets of its machines, on which they answer for VIPs. Nobody wrote them down, but for one that was said;
// see [around].
func (d *draft) addSubnets(said netip.Prefix) {
	for i := range d.inv.Racks {
		rack := &d.inv.Racks[i]
		for _, subnet := range subnetsOf(rack.Machines) {
			switch {
			case slices.ContainsFunc(rack.Subnets, subnet.Overlaps):
			case said.IsValid() && said.Overlaps(subnet):
				rack.Subnets = append(rack.Subnets, said.Masked())
			default:
				rack.Subnets = append(rack.Subnets, subnet)
				d.guess("spec.racks["+rack.Name+"].subnets", fmt.Sprintf("%v: look whether that is the machines' network (ip -4 address)", subnet))
			}
		}
	}
}

// subnetsOf are the networks that machines are taken to be in, in the order of the machines.
func subnetsOf(machines []inventory.Machine) (all []netip.Prefix) {
	for _, m := range machines {
		for _, a := range m.Addresses {
			if subnet := networkOf(a); !slices.Contains(all, subnet) {
				all = append(all, subnet)
			}
		}
	}
	return all
}

func (d *draft) addPool(ranges []inventory.Range, why string) {
	name, _ := d.newName(poolName, "default")
	pool := newPool(name)
	pool.Ranges = ranges
	for _, r := range ranges {
		for _, rack := range d.inv.Racks {
			for _, s := range rack.Subnets {
				pool.Exclude = append(pool.Exclude, noHosts(s, r)...)
			}
		}
	}
	d.comments["spec.pools["+name+"]"] = []string{why}
	d.inv.Pools = append(d.inv.Pools, pool)
}

func (d *draft) proposePool(answers Answers) {
	block, ok := d.free(answers)
	if !ok {
		d.tellInventory(ByHand, "spec.pools", fmt.Sprintf("no %d addresses in a row of IPv4 are free beside the machines: say which addresses Services get (--pool)", freeSize))
		return
	}
	d.addPool([]inventory.Range{block}, "nothing in the cluster has these addresses: keep the network's DHCP server from them")
	d.guess("spec.pools[default].addresses", fmt.Sprintf("%v: nothing in the cluster has these addresses. What else is on the network is not known: keep its DHCP server from them, or say others (--pool)", block))
}

// freeSize is the number of addresses that are proposed: a power of two.
const freeSize = 16

// free is the last block of freeSize addresses of which nothing is used, in the first network of machines that has one. The first block, where
// routers mostly are, and the last one, which has the broadcast address, are left out.
func (d *draft) free(answers Answers) (inventory.Range, bool) {
	used := slices.Clone(answers.Used)
	var subnets []netip.Prefix
	for _, r := range d.inv.Racks {
		subnets = append(subnets, subnetsOf(r.Machines)...)
		for _, m := range r.Machines {
			for _, a := range m.Addresses {
				used = append(used, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	for _, p := range d.inv.Pools {
		for _, r := range p.Ranges {
			used = append(used, r.Prefixes()...)
		}
	}
	for _, subnet := range subnets {
		if !subnet.Addr().Is4() {
			continue
		}
		b := subnet.Addr().As4()
		for last := 256 - 2*freeSize; last >= freeSize; last -= freeSize {
			b[3] = byte(last)
			block := inventory.RangeOf(netip.PrefixFrom(netip.AddrFrom4(b), 32-4))
			within := !answers.Network.IsValid() || answers.Network.Contains(block.First) && answers.Network.Contains(block.Last) && len(noHosts(answers.Network, block)) == 0
			if within && !slices.ContainsFunc(used, func(p netip.Prefix) bool { return inventory.RangeOf(p).Overlaps(block) }) {
				block.Prefix = false // first-last, as people say it
				return block, true
			}
		}
	}
	return inventory.Range{}, false
}
