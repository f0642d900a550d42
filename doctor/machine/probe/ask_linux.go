package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/onlink"
	"plinth.dev/plinth/routing/kernel"
)

const (
	// askTries and askEvery are how an address is asked for: RFC 5227 waits longer, for hosts that sleep.
	askTries = 2
	askEvery = 150 * time.Millisecond
	// askAtOnce is how many addresses are asked for at a time: about 400 frames a second.
	askAtOnce = 64
	// askMost bounds the addresses of a pool that are asked for.
	askMost = 1024
	// connectWithin is how long a router has to answer a connection.
	connectWithin = time.Second
)

// routers finds the way to each router.
func (r *reader) routers() {
	if r.facts.Expected == nil {
		return
	}
	for _, s := range r.facts.Expected.Sessions {
		router := machine.Router{Name: s.Router, Address: s.Address}
		if subnet, on := r.subnetOf(s.Address); subnet.IsValid() {
			router.OnLink = on.Interface
		}
		var err error
		router.Device, router.Gateway, err = kernel.Towards(s.Address)
		if r.unless("the route to router "+s.Router, err) {
			r.facts.Routers = append(r.facts.Routers, router)
		}
	}
}

// subnetOf is the subnet of an interface that has an address in it, other than its own.
func (r *reader) subnetOf(a netip.Addr) (netip.Prefix, machine.Address) {
	for _, at := range r.facts.Addresses {
		if at.Up && !at.Prefix.IsSingleIP() && at.Prefix.Contains(a) && !a.IsLinkLocalUnicast() {
			return at.Prefix.Masked(), at
		}
	}
	return netip.Prefix{}, machine.Address{}
}

// configs are the links to ask on: those of the inventory, and those of routers.
func (r *reader) configs() (all []onlink.Config) {
	for _, l := range r.facts.Expected.Links {
		all = append(all, onlink.Config{Link: onlink.Link{Subnet: l.Subnet, Self: l.Self}, Machines: l.Machines})
	}
	for _, router := range r.facts.Routers {
		subnet, at := r.subnetOf(router.Address)
		same := func(c onlink.Config) bool { return c.Subnet == subnet }
		if subnet.IsValid() && !slices.ContainsFunc(all, same) {
			all = append(all, onlink.Config{Link: onlink.Link{Subnet: subnet, Self: at.Prefix.Addr()}})
		}
	}
	return all
}

// question is one to be asked on a link.
type question struct {
	subnet netip.Prefix
	on     string // the interface
	addr   netip.Addr
}

// ask asks on links for addresses of pools, of the machine and of routers.
func (r *reader) ask(ctx context.Context) {
	if r.facts.Expected == nil || slices.ContainsFunc(r.facts.Unread, func(s string) bool { return strings.HasPrefix(s, "who answers") }) {
		return
	}
	configs := r.configs()
	responder := onlink.New(onlink.Options{})
	defer responder.Close()
	if !r.unless("links", responder.Set(ctx, configs)) {
		return
	}
	works := map[netip.Prefix]string{} // and the name of its interface
	for _, state := range responder.State() {
		switch state.Reason {
		case "":
			works[state.Subnet] = state.Interface
		case lb.NoInterface, lb.NoCarrier: // which other findings tell
		default:
			r.facts.Unread = append(r.facts.Unread, fmt.Sprintf("who answers on %s: %s %s", state.Subnet, state.Reason, state.Detail))
		}
	}
	askMachines(ctx, responder, configs)
	answers := each(r.questions(configs, works), func(q question) []onlink.MAC {
		macs, _ := responder.Probe(ctx, q.subnet, q.addr, askTries, askEvery) // an error is the context's, or a link's that has just gone
		return macs
	})
	for q, macs := range answers {
		for _, mac := range macs {
			_, known := responder.Machine(q.subnet, mac)
			r.facts.Answers = append(r.facts.Answers, machine.Answer{Interface: q.on, Address: q.addr, MAC: mac.String(), Machine: known})
		}
	}
	slices.SortFunc(r.facts.Answers, func(a, b machine.Answer) int {
		return cmp.Or(a.Address.Compare(b.Address), strings.Compare(a.MAC, b.MAC))
	})
	r.askRouters(ctx, responder, works)
}

// each asks questions, some at a time, and returns the answers that there are.
func each(all []question, ask func(question) []onlink.MAC) map[question][]onlink.MAC {
	var mu sync.Mutex
	var asking sync.WaitGroup
	answers := map[question][]onlink.MAC{}
	places := make(chan struct{}, askAtOnce)
	for _, q := range all {
		places <- struct{}{}
		asking.Go(func() {
			defer func() { <-places }()
			if macs := ask(q); len(macs) > 0 {
				mu.Lock()
				defer mu.Unlock()
				answers[q] = macs
			}
		})
	}
	asking.Wait()
	return answers
}

// askMachines has the responder learn the MACs of the machines.
func askMachines(ctx context.Context, responder *onlink.Responder, configs []onlink.Config) {
	var all []question
	for _, c := range configs {
		for _, m := range c.Machines {
			all = append(all, question{subnet: c.Subnet, addr: m})
		}
	}
	each(all, func(q question) []onlink.MAC {
		macs, _ := responder.Ask(ctx, q.subnet, q.addr, askTries, askEvery)
		return macs
	})
}

// questions are for the machine's own addresses, and those of pools on links that work.
func (r *reader) questions(configs []onlink.Config, works map[netip.Prefix]string) (all []question) {
	for _, c := range configs {
		on := works[c.Subnet]
		if on == "" {
			continue
		}
		all = append(all, question{c.Subnet, on, c.Self})
		if !slices.ContainsFunc(r.facts.Expected.Links, func(l machine.Link) bool { return l.Subnet == c.Subnet }) {
			continue // VIPs are announced over BGP there
		}
		for _, p := range r.facts.Expected.Pools {
			addrs, rest := addressesIn(p, c.Subnet)
			if rest {
				r.facts.Unread = append(r.facts.Unread, fmt.Sprintf("who answers for pool %s on %s: more than the first %d addresses", p.Name, c.Subnet, askMost))
			}
			for _, a := range addrs {
				all = append(all, question{c.Subnet, on, a})
			}
		}
	}
	return all
}

// addressesIn are the first addresses of a pool in a subnet, and whether there are more.
func addressesIn(p machine.Pool, subnet netip.Prefix) (all []netip.Addr, more bool) {
	within := inventory.RangeOf(subnet)
	for _, some := range p.Ranges {
		if !some.Overlaps(within) {
			continue
		}
		first := some.First
		if within.First.Compare(first) > 0 {
			first = within.First
		}
		for a := first; a.IsValid() && some.Contains(a) && subnet.Contains(a); a = a.Next() {
			if i := slices.IndexFunc(p.Exclude, func(x inventory.Range) bool { return x.Contains(a) }); i >= 0 {
				a = p.Exclude[i].Last
				continue
			}
			if len(all) == askMost {
				return all, true
			}
			all = append(all, a)
		}
	}
	return all, false
}

// askRouters asks for those in a subnet of the machine's.
func (r *reader) askRouters(ctx context.Context, responder *onlink.Responder, works map[netip.Prefix]string) {
	for i, router := range r.facts.Routers {
		subnet, _ := r.subnetOf(router.Address)
		if works[subnet] == "" {
			continue
		}
		macs, err := responder.Ask(ctx, subnet, router.Address, askTries, askEvery)
		if err != nil {
			continue
		}
		r.facts.Routers[i].Asked = true
		if len(macs) > 0 {
			r.facts.Routers[i].MAC = macs[0].String()
		}
	}
}

// connect tries routers with which the machine has no session: a connection beside one would end it at routers that take it for a restart
// (RFC 4724, section 5). Where the router has to know a password or the TTL it drops what this would send.
func (r *reader) connect(ctx context.Context) {
	for i, router := range r.facts.Routers {
		session := r.facts.Expected.Sessions[slices.IndexFunc(r.facts.Expected.Sessions, func(s machine.Session) bool { return s.Router == router.Name && s.Address == router.Address })]
		speaks := slices.ContainsFunc(r.facts.Sockets, func(s machine.Socket) bool {
			return s.Remote.IsValid() && s.Remote.Addr().WithZone("") == router.Address.WithZone("")
		})
		elsewhere := router.OnLink != "" && router.OnLink != router.Device
		if speaks || session.Password || session.Secured || elsewhere || !r.sends(router.Device) || router.Asked && router.MAC == "" {
			continue
		}
		r.facts.Routers[i].Connect = dial(ctx, session)
	}
}

// sends tells whether what is sent by an interface leaves it.
func (r *reader) sends(device string) bool {
	return slices.ContainsFunc(r.facts.Addresses, func(a machine.Address) bool { return a.Interface == device && a.Up && a.Carrier })
}

// dial connects, and hangs up at once.
func dial(ctx context.Context, s machine.Session) machine.Connect {
	dialer := net.Dialer{Timeout: connectWithin}
	if s.Address.Zone() == "" {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.Local, 0))
	}
	c, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(s.Address, s.Port).String())
	var timeout net.Error
	switch {
	case err == nil:
		c.Close()
		return machine.Accepted
	case errors.Is(err, syscall.ECONNREFUSED):
		return machine.Refused
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, syscall.EHOSTUNREACH):
		return machine.Silent
	}
	return machine.NotTried // as without the machine's address, which another finding tells
}
