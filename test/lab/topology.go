package lab

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// The router implementations that a lab can run.
const (
	FRR  = "frr"
	BIRD = "bird"
	// Plain forwards packets and speaks no routing protocol, as most routers at home.
	Plain = "plain"
)

// Topology is the shape of a lab. Every router has a link to every other router
// and to the client; every machine, and every other host of a rack, is on the rack's
// subnet, with the rack's routers as its default gateways.
type Topology struct {
	Name    string // of the inventory
	Racks   []Rack
	Routers []Router
	// StaticPods gives every machine pod CIDRs by the lab's own hand, with routes
	// in machines and routers, as a CNI would: for inventories without podNetwork.
	StaticPods bool
	// IPv4Only leaves IPv6 out of the inventory: no Node, pod or VIP has such an address.
	IPv4Only bool
	// HoldTime is that of all sessions; zero: 3 s, the least there is. Within it a program that gets no processor
	// loses its sessions.
	HoldTime time.Duration
	// Real gives every machine a kubelet, containerd and pods in containers, in
	// place of the lab's own kubelet.
	Real         bool
	ProxyMode    string        // of kube-proxy: nftables, if empty, or iptables
	ProxyMinSync time.Duration // of kube-proxy between two syncs, at least, where machines are not real; zero: its default
	Images       []string      // archives that real machines import besides the lab's own
}

// Rack is machines on one subnet.
type Rack struct {
	Name     string
	Zone     string // empty: the rack's name
	Routers  []string
	Machines []Machine
	Hosts    []string // on the subnet besides, and no machines: phones, printers
}

// Machine is a host of a rack, and the Kubernetes Node on it.
type Machine struct {
	Name string
	// BareTaint leaves the taint uninitialized away, as a kubelet without
	// --cloud-provider=external would.
	BareTaint bool
	ID        string // in the inventory; empty: none is given
	Boards    int    // of a real machine, that were replaced
	Disks     int    // of a real machine, that were replaced by empty ones
}

// Router is a router in a namespace of its own.
type Router struct {
	Name string
	OS   string // FRR, BIRD or Plain
	ASN  uint32 // of one that speaks BGP
}

// speaks reports whether the router speaks BGP.
func (r Router) speaks() bool { return r.OS != Plain }

// MachineASN is the ASN of all machines in the inventory that Inventory prints.
const MachineASN = 65010

// TwoRacks is the default topology: a rack behind FRR and one behind BIRD, two
// machines each.
func TwoRacks() Topology {
	return Topology{
		Name: "lab",
		Routers: []Router{
			{Name: "tor-r1", OS: FRR, ASN: 65101},
			{Name: "tor-r2", OS: BIRD, ASN: 65102},
		},
		Racks: []Rack{
			{Name: "r1", Zone: "lab-a", Routers: []string{"tor-r1"}, Machines: machines("w1", "w2")},
			{Name: "r2", Zone: "lab-b", Routers: []string{"tor-r2"}, Machines: machines("w3", "w4")},
		},
	}
}

// Homelab is three small computers behind one router, on one subnet.
func Homelab() Topology {
	return Topology{
		Name:    "home",
		Routers: []Router{{Name: "gateway", OS: FRR, ASN: 64513}},
		Racks: []Rack{
			{Name: "shelf", Routers: []string{"gateway"}, Machines: machines("nuc1", "nuc2", "nuc3")},
		},
	}
}

// The hosts of Home that are no machines. Phone and Laptop are on the subnet of the machines, as
// whatever else is at home.
const (
	HomeGateway = "gateway"
	Phone       = "phone"
	Laptop      = "laptop"
)

// Home is so many small computers (nuc1, nuc2, ...) on one subnet, behind a router that speaks no
// BGP: VIPs are on the link.
func Home(computers int) Topology {
	var nucs []string
	for i := range computers {
		nucs = append(nucs, fmt.Sprintf("nuc%d", i+1))
	}
	return Topology{
		Name:    "home",
		Routers: []Router{{Name: HomeGateway, OS: Plain}},
		Racks: []Rack{{
			Name: "shelf", Routers: []string{HomeGateway}, Machines: machines(nucs...), Hosts: []string{Phone, Laptop},
		}},
	}
}

// onLink reports whether VIPs may be on the link: a router speaks no BGP, or there is somebody on
// a subnet of machines who would ask for them.
func (t Topology) onLink() bool {
	return len(t.speakers()) < len(t.Routers) || slices.ContainsFunc(t.Racks, func(r Rack) bool { return len(r.Hosts) > 0 })
}

// TwoRouters is one rack whose machines have two routers.
func TwoRouters() Topology {
	return Topology{
		Name: "pair",
		Routers: []Router{
			{Name: "tor-a", OS: FRR, ASN: 65101},
			{Name: "tor-b", OS: BIRD, ASN: 65102},
		},
		Racks: []Rack{
			{Name: "r1", Routers: []string{"tor-a", "tor-b"}, Machines: machines("m1", "m2")},
		},
	}
}

func machines(names ...string) []Machine {
	list := make([]Machine, len(names))
	for i, n := range names {
		list[i].Name = n
	}
	return list
}

// Machines returns the machines of all racks, in order.
func (t Topology) Machines() []Machine {
	var list []Machine
	for _, r := range t.Racks {
		list = append(list, r.Machines...)
	}
	return list
}

// speakers are the routers that speak BGP, in order.
func (t Topology) speakers() []Router {
	return slices.DeleteFunc(slices.Clone(t.Routers), func(r Router) bool { return !r.speaks() })
}

// RackOf returns the rack that a machine is in.
func (t Topology) RackOf(machine string) (Rack, bool) {
	for _, r := range t.Racks {
		for _, m := range r.Machines {
			if m.Name == machine {
				return r, true
			}
		}
	}
	return Rack{}, false
}

// Router returns the router of that name.
func (t Topology) Router(name string) (Router, bool) {
	for _, r := range t.Routers {
		if r.Name == name {
			return r, true
		}
	}
	return Router{}, false
}

// hostName leaves room for what is put before and after it in the 15 bytes of an
// interface name.
var hostName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,9}$`)

var reserved = map[string]bool{clientHost: true, controlHost: true, switchHost: true}

// validate reports everything that keeps the topology from being built.
func (t Topology) validate() error {
	var problems []error
	seen := map[string]bool{}
	check := func(kind, name string) {
		switch {
		case !hostName.MatchString(name):
			problems = append(problems, fmt.Errorf("%s %q: want at most ten of a-z, 0-9 and -, a letter first", kind, name))
		case reserved[name]:
			problems = append(problems, fmt.Errorf("%s %q: the lab has a namespace of that name already", kind, name))
		case seen[name]:
			problems = append(problems, fmt.Errorf("%s %q: the name is given twice", kind, name))
		}
		seen[name] = true
	}
	for _, r := range t.Routers {
		check("router", r.Name)
		if r.OS != FRR && r.OS != BIRD && r.OS != Plain {
			problems = append(problems, fmt.Errorf("router %q: os %q: want %s, %s or %s", r.Name, r.OS, FRR, BIRD, Plain))
		}
	}
	for _, m := range t.Machines() {
		check("machine", m.Name)
	}
	for _, rack := range t.Racks {
		check("rack", rack.Name)
		for _, h := range rack.Hosts {
			check("host", h)
		}
		for _, name := range rack.Routers {
			if _, ok := t.Router(name); !ok {
				problems = append(problems, fmt.Errorf("rack %q: there is no router %q", rack.Name, name))
			}
		}
	}
	if len(t.Racks) > 200 || len(t.Machines()) > 200 {
		problems = append(problems, errors.New("more than 200 racks or machines"))
	}
	return errors.Join(problems...)
}
