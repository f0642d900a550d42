package link

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/mesh"
	"plinth.dev/plinth/lb/onlink"
)

// Status is a subnet on which the machine answers for VIPs.
type Status struct {
	Subnet    string          `json:"subnet"`
	Interface string          `json:"interface,omitempty"`
	Reason    string          `json:"reason,omitempty"` // why nothing is answered
	Detail    string          `json:"detail,omitempty"`
	Quorum    string          `json:"quorum"` // by what right the machine answers: majority, careful or none
	Witness   string          `json:"witness"`
	Leaving   string          `json:"leaving,omitempty"` // why it asks others to answer
	Machines  []MachineStatus `json:"machines"`          // the others
	VIPs      []VIPStatus     `json:"vips"`
}

// MachineStatus is another machine of a link.
type MachineStatus struct {
	Name     string `json:"name"`
	Standing string `json:"standing"`
	Losses   uint64 `json:"losses"`
}

// VIPStatus is a VIP of a link.
type VIPStatus struct {
	VIP      string `json:"vip"`
	Owner    string `json:"owner,omitempty"`    // by what this machine knows
	Answers  bool   `json:"answers"`            // this machine does
	Reason   string `json:"reason,omitempty"`   // why it does not
	Conflict string `json:"conflict,omitempty"` // the MAC of a host that claims it as well
}

// Status returns the status of the links.
func (l *Links) Status() []Status {
	all := []Status{}
	for _, reached := range l.Reached() {
		status := Status{
			Subnet: reached.plan.Link.Subnet.String(), Interface: reached.wire.Interface, Reason: string(reached.wire.Reason), Detail: reached.wire.Detail,
			Quorum: reached.step.Quorum.String(), Witness: reached.mesh.Witness.String(), Leaving: string(reached.plan.Leaving),
			Machines: []MachineStatus{}, VIPs: []VIPStatus{},
		}
		for _, m := range reached.mesh.Machines {
			status.Machines = append(status.Machines, MachineStatus{m.Name, m.Standing.String(), m.Losses})
		}
		for _, owner := range reached.step.Owners {
			vip := VIPStatus{VIP: owner.VIP.String(), Owner: owner.Owner, Answers: slices.Contains(reached.claims, owner.VIP), Reason: string(owner.Reason)}
			if host, has := reached.strangers[owner.VIP]; has {
				vip.Conflict = host.String()
			}
			for _, a := range reached.wire.Addresses {
				if a.Addr == owner.VIP && a.Reason == lb.AddressConflict {
					vip.Conflict = a.Conflict.MAC.String()
				}
			}
			status.VIPs = append(status.VIPs, vip)
		}
		all = append(all, status)
	}
	return all
}

// headline is the state of a link besides its machines and VIPs, as status and problems show it.
type headline struct {
	subnet          netip.Prefix
	leaving, reason lb.Reason
	detail, wire    string
	quorum          advertise.Quorum
	witness         advertise.Witness
}

func (r Reached) headline() headline {
	return headline{
		subnet: r.plan.Link.Subnet, leaving: r.plan.Leaving, reason: r.wire.Reason, detail: r.wire.Detail, wire: r.wire.Interface,
		quorum: r.step.Quorum, witness: r.mesh.Witness,
	}
}

// shownAlike reports whether what status and problems show of a link is the same.
func shownAlike(one, other Reached) bool {
	return one.headline() == other.headline() &&
		slices.Equal(one.claims, other.claims) && slices.Equal(one.step.Owners, other.step.Owners) && maps.Equal(one.strangers, other.strangers) &&
		slices.EqualFunc(one.mesh.Machines, other.mesh.Machines, func(a, b mesh.MachineState) bool {
			return a.Name == b.Name && a.Standing == b.Standing && a.Losses == b.Losses
		}) &&
		slices.EqualFunc(one.wire.Addresses, other.wire.Addresses, func(a, b onlink.AddressState) bool {
			return a.Addr == b.Addr && a.Reason == b.Reason && a.OnInterface == b.OnInterface && a.Conflict.MAC == b.Conflict.MAC
		})
}

// Problems are the problems of the links that the Node's condition reports, sorted. One that both an audit and the wire
// find is listed once.
func (l *Links) Problems() (all []lb.LinkProblem) {
	for _, reached := range l.Reached() {
		if reached.wire.Reason != "" {
			all = append(all, lb.LinkProblem{On: reached.plan.Link.Subnet.String(), Reason: reached.wire.Reason})
		} else if reached.plan.Leaving == lb.ProxyRulesLost {
			all = append(all, lb.LinkProblem{On: reached.plan.Link.Subnet.String(), Reason: lb.ProxyRulesLost})
		} else if reached.step.Quorum == advertise.NoQuorum && len(reached.plan.VIPs) > 0 {
			all = append(all, lb.LinkProblem{On: reached.plan.Link.Subnet.String(), Reason: lonelyReason(reached)})
		}
		for vip, host := range reached.strangers {
			all = append(all, lb.LinkProblem{On: vip.String(), Reason: lb.AddressConflict, Detail: host.String()})
		}
		for _, address := range reached.wire.Addresses {
			if address.Reason == "" {
				continue
			}
			p := lb.LinkProblem{On: address.Addr.String(), Reason: address.Reason, Detail: address.OnInterface}
			if address.Reason == lb.AddressConflict {
				p.Detail = address.Conflict.MAC.String()
			}
			all = append(all, p)
		}
	}
	all = append(all, l.findings()...)
	slices.SortFunc(all, lb.LinkProblem.Compare)
	return slices.Compact(all)
}

func lonelyReason(r Reached) lb.Reason {
	if r.mesh.Witness == advertise.WitnessSilent {
		return lb.WitnessSilent
	}
	return lb.NoMajority
}

var (
	linkLabels    = []string{"subnet"}
	linkVIPs      = prometheus.NewDesc("plinth_agent_link_vips", "VIPs that the machine answers for on a subnet.", linkLabels, nil)
	linkMachines  = prometheus.NewDesc("plinth_agent_link_machines", "Other machines of a subnet, by what this one knows of them: up, down, leaving, holding or unheard.", []string{"subnet", "standing"}, nil)
	linkLosses    = prometheus.NewDesc("plinth_agent_link_losses_total", "Times that another machine of a subnet was lost.", []string{"subnet", "machine"}, nil)
	linkProblems  = prometheus.NewDesc("plinth_agent_link_problems", "1 for each problem of a subnet or of a VIP on it, by reason.", []string{"on", "reason", "detail"}, nil)
	linkHasQuorum = prometheus.NewDesc("plinth_agent_link_quorum", "By what right the machine answers on a subnet: 2 with the majority, 1 carefully, 0 not at all.", linkLabels, nil)
)

// Describe are the metrics of links that there can be.
func Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{linkVIPs, linkMachines, linkLosses, linkProblems, linkHasQuorum} {
		ch <- d
	}
}

// Collect are the metrics of links.
func (l *Links) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, r := range l.Reached() {
		subnet := r.plan.Link.Subnet.String()
		gauge(linkVIPs, float64(len(r.claims)), subnet)
		gauge(linkHasQuorum, float64(r.step.Quorum), subnet)
		count := map[advertise.Standing]int{}
		for _, m := range r.mesh.Machines {
			count[m.Standing]++
			ch <- prometheus.MustNewConstMetric(linkLosses, prometheus.CounterValue, float64(m.Losses), subnet, m.Name)
		}
		for standing, n := range count {
			gauge(linkMachines, float64(n), subnet, standing.String())
		}
	}
	for _, p := range l.Problems() {
		gauge(linkProblems, 1, p.On, string(p.Reason), p.Detail)
	}
}
