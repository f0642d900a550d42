package probe

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/onlink"
)

const (
	// askTries is how often an address is asked for that nobody answers for.
	askTries = 2
	// askEvery is the time between two frames on an interface, and how long an answer is waited for. Switches that inspect ARP take 15 frames a second
	// of a port, and shut one that sends more.
	askEvery = 100 * time.Millisecond
	// askMost bounds the addresses of a pool that are asked for on a link: about 13 seconds.
	askMost = 64
	// askMostOfLink bounds those of all pools.
	askMostOfLink = 256
)

// configs are the links to ask on: those of the inventory, and those of routers. They have no machines, since a responder would ask all of these at once.
func (r *reader) configs() (all []onlink.Config) {
	for _, l := range r.facts.Expected.Links {
		all = append(all, onlink.Config{Link: onlink.Link{Subnet: l.Subnet, Self: l.Self}})
	}
	for _, s := range r.facts.Expected.Sessions {
		subnet, at := r.subnetOf(s)
		same := func(c onlink.Config) bool { return c.Subnet == subnet }
		if subnet.IsValid() && !slices.ContainsFunc(all, same) {
			all = append(all, onlink.Config{Link: onlink.Link{Subnet: subnet, Self: at.Prefix.Addr()}})
		}
	}
	return all
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
	links := r.linksThatWork(responder)
	askAll(ctx, links)
	for _, link := range links {
		r.facts.Answers = append(r.facts.Answers, link.answers...)
		if len(link.pools) > 0 {
			r.facts.Asked = append(r.facts.Asked, machine.Asked{Interface: link.on, IPv6: link.config.Subnet.Addr().Is6(), Addresses: len(link.pools)})
		}
		r.unless(fmt.Sprintf("who answers on %s", link.config.Subnet), link.err)
		for _, router := range link.routers {
			i := slices.IndexFunc(r.facts.Routers, func(have machine.Router) bool { return have.Name == router.Name && have.Address == router.Address })
			r.facts.Routers[i] = router
		}
	}
	slices.SortFunc(r.facts.Answers, func(a, b machine.Answer) int {
		return cmp.Or(a.Address.Compare(b.Address), strings.Compare(a.MAC, b.MAC))
	})
}

// askAll asks on all interfaces at the same time, and on links of the same interface one after the other: a switch counts the frames of its port.
func askAll(ctx context.Context, links []*askedLink) {
	byInterface := map[string][]*askedLink{}
	for _, l := range links {
		byInterface[l.on] = append(byInterface[l.on], l)
	}
	var asking sync.WaitGroup
	for _, those := range byInterface {
		asking.Go(func() {
			var next time.Time
			for _, l := range those {
				l.next = next
				l.ask(ctx)
				next = l.next
			}
		})
	}
	asking.Wait()
}

// linksThatWork returns the links that can be asked on, each with the addresses to ask for. Of the others it notes the reason.
func (r *reader) linksThatWork(responder *onlink.Responder) (all []*askedLink) {
	for _, state := range responder.State() {
		i := slices.IndexFunc(r.facts.Expected.Links, func(l machine.Link) bool { return l.Subnet == state.Subnet })
		switch {
		case state.Reason == "":
			l := &askedLink{every: r.every, responder: responder, config: state.Link, on: state.Interface, routers: r.routersOn(state.Subnet)}
			if i >= 0 { // else VIPs are announced over BGP there
				l.machines, l.pools = r.facts.Expected.Links[i].Machines, r.sampled(state.Subnet)
			}
			all = append(all, l)
		case state.Reason == lb.NoCarrier: // which another finding tells
		case state.Reason == lb.NoInterface && i >= 0:
			if r.hasAddress(state.Self) { // else another finding tells that
				r.facts.Unusable = append(r.facts.Unusable, machine.UnusableLink{Subnet: state.Subnet, Detail: state.Detail})
			}
		case state.Reason != lb.NoInterface:
			r.facts.Unread = append(r.facts.Unread, fmt.Sprintf("who answers on %s: %s %s", state.Subnet, state.Reason, state.Detail))
		}
	}
	return all
}

// sampled are the addresses of pools to ask for on a link. It notes of which pools these are not all.
func (r *reader) sampled(subnet netip.Prefix) (all []netip.Addr) {
	var inSubnet []machine.Pool
	for _, p := range r.facts.Expected.Pools {
		if len(segments(p, subnet)) > 0 {
			inSubnet = append(inSubnet, p)
		}
	}
	for _, p := range inSubnet {
		some, rest := spread(segments(p, subnet), max(1, min(askMost, askMostOfLink/len(inSubnet))))
		if rest {
			r.facts.Notes = append(r.facts.Notes, fmt.Sprintf("of pool %s, %d addresses were asked for on %s, spread over all of it", p.Name, len(some), subnet))
		}
		all = append(all, some...)
	}
	return all
}

// asker asks on links, as [onlink.Responder] does.
type asker interface {
	Ask(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]onlink.MAC, error)
	Probe(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]onlink.MAC, error)
}

// askedLink is one link, with the addresses to ask for and the answers.
type askedLink struct {
	responder asker
	config    onlink.Link
	on        string // the interface
	pools     []netip.Addr
	machines  []netip.Addr
	every     time.Duration // between two frames
	next      time.Time     // when the next frame may be sent
	answers   []machine.Answer
	routers   []machine.Router
	err       error // the first
}

// ask asks for all, one after the other. The machine's own address of IPv6 is left out: only as nobody could the machine ask for it, and whoever has it would
// answer that to all hosts (RFC 4861, section 7.2.4), which would send there from then on. The kernel has asked so itself (RFC 4862, section 5.4).
func (l *askedLink) ask(ctx context.Context) {
	all := l.pools
	if l.config.Self.Is4() {
		all = append([]netip.Addr{l.config.Self}, all...)
	}
	for _, a := range all {
		if mac, answered := l.who(ctx, a); answered {
			l.answers = append(l.answers, machine.Answer{Interface: l.on, Address: a, MAC: mac.String()})
		}
	}
	l.findMachines(ctx)
	for i, router := range l.routers {
		if mac, answered := l.who(ctx, router.Address); answered {
			l.routers[i].MAC = mac.String()
		}
		l.routers[i].Asked = l.err == nil
	}
}

// findMachines asks machines for their MACs, if any host answered whose MAC is to be told.
func (l *askedLink) findMachines(ctx context.Context) {
	stranger := func(a machine.Answer) bool { return !a.Machine }
	for _, m := range l.machines {
		if !slices.ContainsFunc(l.answers, stranger) {
			return
		}
		mac, answered := l.who(ctx, m)
		for i, a := range l.answers {
			l.answers[i].Machine = a.Machine || answered && a.MAC == mac.String()
		}
	}
}

// who returns the MAC that answers for an address. It asks for one of IPv4 as nobody, so that no cache learns anything (RFC 5227), and for one of
// IPv6 as itself, since the answer to nobody goes to all hosts and changes their caches.
func (l *askedLink) who(ctx context.Context, addr netip.Addr) (onlink.MAC, bool) {
	ask := l.responder.Ask
	if addr.Is4() {
		ask = l.responder.Probe
	}
	for range askTries {
		if l.err != nil || !l.turn(ctx) {
			break
		}
		macs, err := ask(ctx, l.config.Subnet, addr, 1, l.every)
		if l.err = err; len(macs) > 0 {
			return macs[0], true
		}
	}
	return onlink.MAC{}, false
}

// turn waits until the next frame may be sent, and tells whether that has come.
func (l *askedLink) turn(ctx context.Context) bool {
	timer := time.NewTimer(time.Until(l.next))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		l.next = time.Now().Add(l.every)
		return true
	}
}
