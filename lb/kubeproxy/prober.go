package kubeproxy

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/lb/advertise"
)

// atOnce is the number of questions that are asked at the same time: health checks wait for kube-proxy.
const atOnce = 16

// Prober asks. Its methods may be called at any time.
type Prober struct {
	filter netfilter
}

// Round holds the facts of the machine for one round of questions.
type Round struct {
	Addresses []netip.Addr // of the Node
	Proxy     bool         // there is a kube-proxy on this machine, by what it says of itself
}

// Ask answers questions, each in its place. When ctx ends, what is left counts as absent.
func (p *Prober) Ask(ctx context.Context, round Round, questions []advertise.Question) []advertise.Answer {
	answers := make([]advertise.Answer, len(questions))
	modes := map[uint8]mode{}
	for i, q := range questions {
		answers[i] = advertise.Answer{Question: q, Evidence: advertise.Absent}
		if _, known := modes[family(q.VIP)]; !known {
			modes[family(q.VIP)] = p.mode(q.VIP, round.Proxy)
		}
	}
	var workers sync.WaitGroup
	limit := make(chan struct{}, atOnce)
	for i := range answers {
		limit <- struct{}{}
		workers.Go(func() {
			defer func() { <-limit }()
			if a := &answers[i]; ctx.Err() == nil {
				a.Evidence = p.evidence(ctx, modes[family(a.Question.VIP)], round.Addresses, a.Question)
			}
		})
	}
	workers.Wait()
	return answers
}

// mode is the mode of kube-proxy in one family, as the kernel's tables show it.
type mode string

const (
	nftables mode = "nftables"
	iptables mode = "iptables"
	starting mode = "starting" // it runs, and has no rules of any kind yet
	hidden   mode = "hidden"   // it shows nothing that could be evidence, or there is none
)

// ipvsLink is the device that has the VIPs in mode ipvs.
const ipvsLink = "kube-ipvs0"

// substitutes are devices of programs that do kube-proxy's work, and need not answer at its
// health check: Cilium, kube-router, and Calico with eBPF.
var substitutes = []string{"cilium_host", "kube-dummy-if", "bpfin.cali"}

// Replaced reports whether another program may do kube-proxy's work on this machine.
func Replaced() bool {
	return slices.ContainsFunc(substitutes, func(device string) bool {
		_, err := net.InterfaceByName(device)
		return err == nil
	})
}

// Connects reports whether questions are answered by connections to endpoints, in either family.
func (p *Prober) Connects(r Round) bool {
	return p.mode(netip.IPv4Unspecified(), r.Proxy) == iptables || p.mode(netip.IPv6Unspecified(), r.Proxy) == iptables
}

func (p *Prober) mode(addr netip.Addr, proxy bool) mode {
	table := p.filter.hasProxyTable(addr) // before its maps, which come with it in one transaction
	found, err := p.filter.hasMap(addr, servicesMap)
	if found {
		return nftables
	}
	_, noLink := net.InterfaceByName(ipvsLink)
	switch {
	case noLink == nil:
		return hidden
	case table && p.filter.hasProxyTable(addr): // and has not gone meanwhile
		return hidden // of a version that has other maps
	case p.filter.hasChains(addr):
		return iptables
	case proxy && err == nil:
		return starting
	}
	return hidden
}

// evidence answers one question.
func (p *Prober) evidence(ctx context.Context, mode mode, node []netip.Addr, question advertise.Question) advertise.Evidence {
	ports := portsIn(question.Frontend.Ports)
	found := advertise.Unknown
	switch mode {
	case nftables:
		found = p.inRules(question.VIP, ports)
	case iptables:
		found = p.passesOn(question.VIP, ports)
	case starting:
		return advertise.Absent
	case hidden:
		return advertise.Unknown
	}
	if found != advertise.Present || !question.Ready || question.Frontend.HealthCheckPort == 0 {
		return found
	}
	return p.arrived(ctx, mode, node, question, ports)
}

// inRules looks the ports up: the rules of all are written together, and a port that no
// endpoint serves has none.
func (p *Prober) inRules(vip netip.Addr, ports []port) advertise.Evidence {
	if len(ports) == 0 {
		return advertise.Unknown
	}
	for _, port := range ports {
		if found, err := p.filter.inMap(servicesMap, vip, port); err != nil {
			return advertise.Unknown
		} else if found {
			return advertise.Present
		}
	}
	return advertise.Absent
}

// passesOn connects to the ports. One that shows nothing stands for none of the others.
func (p *Prober) passesOn(vip netip.Addr, ports []port) advertise.Evidence {
	found := advertise.Unknown
	for _, port := range ports {
		if port.protocol != unix.IPPROTO_TCP {
			continue
		}
		switch p.filter.connect(vip, port) {
		case advertise.Present:
			return advertise.Present
		case advertise.Absent:
			found = advertise.Absent
		default: // it shows nothing
		}
	}
	return found
}

// arrived reports whether kube-proxy has a ready endpoint of this machine in its rules.
//
// A health check node port counts them in one family. Up to 1.35 the first one of kube-proxy's
// two has it for both, and the other may be a sync behind: mode nftables shows for each family
// whether it has an endpoint, and mode iptables does not.
func (p *Prober) arrived(ctx context.Context, m mode, node []netip.Addr, question advertise.Question, ports []port) advertise.Evidence {
	n, err := readyHere(ctx, healthAddresses(question.VIP, node), question.Frontend.HealthCheckPort)
	switch {
	case err == nil && n == 0, err != nil && m != nftables:
		return advertise.Absent
	case m != nftables:
		return advertise.Present
	}
	return p.served(question.VIP, ports)
}

// served reports whether mode nftables passes what comes from outside on to an endpoint: with
// externalTrafficPolicy Local, to one of this machine. Which port has none, is in a map of its own.
func (p *Prober) served(vip netip.Addr, ports []port) advertise.Evidence {
	for _, port := range ports {
		passed, err1 := p.filter.inMap(servicesMap, vip, port)
		dropped, err2 := p.filter.inMap(endpointless, vip, port)
		if err1 == nil && err2 == nil && passed && !dropped {
			return advertise.Present
		}
	}
	return advertise.Absent
}

// healthAddresses returns the addresses at which a health check node port may be open: the VIP's family comes
// first, for kube-proxy counts the endpoints of each by itself where it can.
func healthAddresses(vip netip.Addr, node []netip.Addr) []netip.Addr {
	all := append(slices.Clone(node), netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	other := func(a netip.Addr) int {
		if a.Is4() == vip.Is4() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b netip.Addr) int { return cmp.Compare(other(a), other(b)) })
	return all
}

// port is one of a Service's.
type port struct {
	protocol uint8
	number   uint16
}

var protocols = map[string]uint8{"TCP": unix.IPPROTO_TCP, "UDP": unix.IPPROTO_UDP, "SCTP": unix.IPPROTO_SCTP}

// portsIn reads "80/TCP,53/UDP". What it does not understand is left out.
func portsIn(text string) (all []port) {
	for one := range strings.SplitSeq(text, ",") {
		number, protocol, _ := strings.Cut(one, "/")
		n, err := strconv.ParseUint(number, 10, 16)
		if p, known := protocols[protocol]; known && err == nil {
			all = append(all, port{p, uint16(n)})
		}
	}
	return all
}
