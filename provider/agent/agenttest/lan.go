package agenttest

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/mesh"
	"plinth.dev/plinth/lb/onlink"
)

// LAN is a wire and the machines on it.
type LAN struct {
	Mu                       sync.Mutex
	Subnet                   netip.Prefix
	WireChanged, MeshChanged chan struct{}
	Configs                  []onlink.Config
	Heard                    map[netip.Addr]onlink.Heard
	Owners                   map[netip.Addr]netip.Addr // who answers probes
	Standing                 map[string]advertise.Standing
	Refusals                 int  // how often the mesh cannot open a session
	Failures                 int  // how often the wire cannot be set
	Meshed                   bool // the mesh has a link
	Witness                  []netip.Addr
	Leaving                  bool
	Probes                   int
	Asked                    int // of these, those that say who asks
	Conflicts                map[netip.Addr]onlink.MAC
	Deaf                     lb.Reason // why the wire does not work
	Early                    int       // probes on a link that was not set
	Probed                   chan struct{}
	Hold                     chan struct{} // closed: the first probe ends
}

// NewLAN returns one on which no machine is.
func NewLAN() *LAN {
	return &LAN{
		Subnet: LANSubnet, WireChanged: make(chan struct{}, 1), MeshChanged: make(chan struct{}, 1), Heard: map[netip.Addr]onlink.Heard{},
		Owners: map[netip.Addr]netip.Addr{}, Standing: map[string]advertise.Standing{},
		Conflicts: map[netip.Addr]onlink.MAC{},
	}
}

// Wire answers on the LAN, and asks there.
type Wire struct{ *LAN }

// Set sets the configuration that the LAN follows, as the responder and the mesh do.
func (f Wire) Set(_ context.Context, all []onlink.Config) error {
	f.Mu.Lock()
	first := f.Configs == nil
	f.Mu.Unlock()
	if first && f.Probed != nil {
		select { // a probe that should come later comes now
		case <-f.Probed:
		case <-time.After(100 * time.Millisecond):
		}
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Configs = all
	if f.Failures > 0 {
		f.Failures--
		return errors.New("too many open files")
	}
	return nil
}

// Probe asks who has an address, without a word of who asks.
func (f Wire) Probe(_ context.Context, _ netip.Prefix, addr netip.Addr, _ int, _ time.Duration) ([]onlink.MAC, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Probes++
	if f.Probes == 1 && f.Hold != nil {
		f.Mu.Unlock()
		<-f.Hold
		f.Mu.Lock()
	}
	if f.Configs == nil && f.Probed != nil {
		f.Early++
		f.Probed <- struct{}{}
	}
	if f.Deaf != "" {
		return nil, onlink.Unavailable{Subnet: f.Subnet, Reason: f.Deaf}
	}
	if owner, has := f.Owners[addr]; has {
		return []onlink.MAC{{5: owner.As4()[3]}}, nil
	}
	return nil, nil
}

// Ask asks who has an address.
func (f Wire) Ask(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]onlink.MAC, error) {
	f.Mu.Lock()
	f.Asked++
	f.Mu.Unlock()
	return f.Probe(ctx, subnet, addr, tries, every)
}

// AskAll asks everybody who has an address.
func (f Wire) AskAll(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]onlink.MAC, error) {
	return f.Probe(ctx, subnet, addr, tries, every)
}

// Machine is the machine with a MAC.
func (f Wire) Machine(_ netip.Prefix, mac onlink.MAC) (netip.Addr, bool) {
	return netip.AddrFrom4([4]byte{192, 168, 1, mac[5]}), mac[5] < 100
}

// Announce does nothing.
func (f Wire) Announce(netip.Prefix, netip.Addr) {}

// AnnounceAnew does nothing.
func (f Wire) AnnounceAnew(netip.Prefix, netip.Addr) {}

// State returns the state of the link.
func (f Wire) State() []onlink.LinkState {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	var all []onlink.LinkState
	for _, c := range f.Configs {
		s := onlink.LinkState{Link: c.Link, Reason: f.Deaf}
		for vip, h := range f.Heard {
			s.Addresses = append(s.Addresses, onlink.AddressState{Addr: vip, Heard: h})
		}
		for vip, mac := range f.Conflicts {
			s.Addresses = append(s.Addresses, onlink.AddressState{Addr: vip, Reason: lb.AddressConflict, Conflict: onlink.Conflict{MAC: mac}})
		}
		all = append(all, s)
	}
	return all
}

// Changed tells of changes of the state.
func (f Wire) Changed() <-chan struct{} { return f.WireChanged }

// Mesh tells which machines of the LAN are up.
type Mesh struct{ *LAN }

// Set sets the configuration that the LAN follows, as the responder and the mesh do.
func (f Mesh) Set(_ context.Context, all []mesh.Config) error {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Meshed, f.Witness = len(all) > 0, nil
	if f.Meshed {
		f.Witness = all[0].Witness
	}
	f.Leaving = f.Meshed && all[0].Leaving
	if f.Refusals > 0 {
		f.Refusals--
		return errors.New("cannot assign requested address")
	}
	return nil
}

// Acted does nothing.
func (f Mesh) Acted([]mesh.LinkState) {}

// State returns the state of the link.
func (f Mesh) State() []mesh.LinkState {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	s := mesh.LinkState{Subnet: f.Subnet, Witness: advertise.WitnessAnswers}
	for _, name := range slices.Sorted(maps.Keys(f.Standing)) {
		s.Machines = append(s.Machines, mesh.MachineState{Machine: mesh.Machine{Name: name}, Standing: f.Standing[name]})
	}
	return []mesh.LinkState{s}
}

// Changed tells of changes of the state.
func (f Mesh) Changed() <-chan struct{} { return f.MeshChanged }

// SetStanding sets the standing of a machine: up, down, or another.
func (f *LAN) SetStanding(name string, s advertise.Standing) {
	f.Mu.Lock()
	f.Standing[name] = s
	f.Mu.Unlock()
	f.MeshChanged <- struct{}{}
}

// Deafen makes the wire fail for a reason; empty: it works again.
func (f *LAN) Deafen(why lb.Reason) {
	f.Mu.Lock()
	f.Deaf = why
	f.Mu.Unlock()
	f.WireChanged <- struct{}{}
}

// IsLeaving reports whether the others are told that the machine leaves.
func (f *LAN) IsLeaving() bool {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.Leaving
}

// IsMeshed reports whether the mesh has a link.
func (f *LAN) IsMeshed() bool {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.Meshed
}

// Claims are the addresses that are answered for.
func (f *LAN) Claims() []netip.Addr {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if len(f.Configs) == 0 {
		return nil
	}
	return f.Configs[0].Claims
}

// Until waits for claims.
func (f *LAN) Until(t testing.TB, want ...netip.Addr) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !slices.Equal(f.Claims(), want) {
		if time.Now().After(deadline) {
			t.Fatalf("it answers for %v, want %v", f.Claims(), want)
		}
		time.Sleep(time.Millisecond)
	}
}

// LANSubnet is the subnet of a LAN.
var LANSubnet = netip.MustParsePrefix("192.168.1.0/24")

// LANPlan returns the plan of machine w1, of three, for VIPs, each with its homes.
func LANPlan(homes map[string][]string) advertise.LinkPlan {
	p := advertise.LinkPlan{Link: inventory.Link{Subnet: LANSubnet}, Self: netip.MustParseAddr("192.168.1.1")}
	for i, name := range []string{"w1", "w2", "w3"} {
		p.Link.Machines = append(p.Link.Machines, inventory.LinkMachine{Name: name, Addr: netip.AddrFrom4([4]byte{192, 168, 1, byte(i + 1)}), State: inventory.StateActive})
	}
	for addr, h := range homes {
		p.VIPs = append(p.VIPs, advertise.LinkVIP{VIP: netip.MustParseAddr(addr), Homes: h, Served: true})
		p.Offers = append(p.Offers, advertise.Offer{Service: lb.ServiceKey{Namespace: "prod", Name: addr}, VIP: netip.MustParseAddr(addr)})
	}
	slices.SortFunc(p.VIPs, func(a, b advertise.LinkVIP) int { return a.VIP.Compare(b.VIP) })
	slices.SortFunc(p.Offers, advertise.Offer.Compare)
	return p
}
