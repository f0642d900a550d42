package report

import (
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/link"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/routing/kernel"
	"plinth.dev/plinth/sorted"
)

// stuckAfter is how long a pass may be overdue until the agent counts as stuck.
const stuckAfter = 2 * time.Minute

// Status is the content of /status. No password is ever in it.
type Status struct {
	Place
	State
	Lists

	basis Basis
}

// Place is which machine this is.
type Place struct {
	Node         string `json:"node"`
	Machine      string `json:"machine,omitempty"`
	MachineState string `json:"machineState,omitempty"`
	Inventory    string `json:"inventory,omitempty"`
	Rack         string `json:"rack,omitempty"`
}

// State is the state of the agent.
type State struct {
	Ready        bool      `json:"ready"`
	WaitingFor   string    `json:"waitingFor,omitempty"`
	FromDisk     bool      `json:"fromDisk"`         // the API server has not told all yet
	WatchesNodes bool      `json:"watchesNodes"`     // other Nodes, since the directory lacks some
	Unread       []string  `json:"unread,omitempty"` // what a newer version stored: what was known of it before stays in force
	ProxyHealthy bool      `json:"proxyHealthy"`
	Draining     bool      `json:"draining"`
	Withdrawn    bool      `json:"withdrawn"`
	Condition    string    `json:"condition"`
	At           time.Time `json:"at"`
}

// Lists are the long parts of the status, made at each request.
type Lists struct {
	Routes   RoutesStatus     `json:"routes"`
	Sessions []SessionStatus  `json:"sessions"`
	Refusals []RefusalStatus  `json:"refusals"` // VIPs and pod CIDRs that are not announced
	Demoted  []DemotionStatus `json:"demoted"`  // prefixes that are announced as the worse way, though the machine does not drain
	Overdue  []RefusalStatus  `json:"overdue"`  // VIPs that are announced although kube-proxy's rules for them were not seen, or are gone
	Exempt   []RefusalStatus  `json:"exempt"`   // VIPs that are announced without a question about rules, since kube-proxy leaves their Services alone
	Unrouted []RefusalStatus  `json:"unrouted"` // pod CIDRs that have no route
	Links    []link.Status    `json:"links"`    // on which VIPs are answered for
	Settings []string         `json:"settings"` // of the kernel, that keep packets from pods
	// Staleness is, for each kind of object, how many seconds ago the API server
	// last said anything about it, be it that nothing changed, or since it is asked in vain.
	Staleness map[string]float64 `json:"stalenessSeconds"`
}

// Basis is the data that [Lists] and the metrics are made of.
type Basis struct {
	Settings []kernel.Setting
	Plan     plan.Plan
	Offers   sorted.List[advertise.Offer] // that the plan was made of
	OnLinks  []advertise.Refusal
	Overdue  []advertise.Question // VIPs that are announced without rules
	Lost     int                  // Services whose rules are gone
	Reached  kernel.State

	passed time.Time
}

// SessionStatus is one session.
type SessionStatus struct {
	Router    string    `json:"router"`
	Address   string    `json:"address"`
	Phase     string    `json:"phase"` // what the session is doing
	Up        bool      `json:"up"`
	Since     time.Time `json:"since"`
	Cause     string    `json:"cause,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	BFD       string    `json:"bfd,omitempty"`
	HoldTime  string    `json:"holdTime,omitempty"` // that both ends count by
	Losses    uint64    `json:"losses"`
	Flaps     int       `json:"flaps,omitempty"`    // losses in a row, each soon after it came up
	HeldUntil time.Time `json:"heldUntil,omitzero"` // it is left down until then
	Announced []string  `json:"announced"`          // in the adj-RIB-out
	Accepted  int       `json:"accepted"`

	Refused  int             `json:"refused,omitempty"`  // prefixes that were planned and may not leave
	Refusals []RefusedStatus `json:"refusals,omitempty"` // the first of them
}

// RefusedStatus is a prefix that a session keeps back, whatever was planned.
type RefusedStatus struct {
	Prefix string `json:"prefix"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// RoutesStatus is our part of the kernel's tables.
type RoutesStatus struct {
	Wanted int      `json:"wanted"`
	Held   int      `json:"held"`
	Failed []string `json:"failed,omitempty"`
	Routes []string `json:"routes"` // as wanted
}

// RefusalStatus is the refusal to announce or route something, with its reason.
type RefusalStatus struct {
	Service string `json:"service,omitempty"`
	VIP     string `json:"vip,omitempty"`
	Node    string `json:"node,omitempty"`
	PodCIDR string `json:"podCIDR,omitempty"`
	Router  string `json:"router,omitempty"`
	Reason  string `json:"reason"`
	Other   string `json:"other,omitempty"` // the Node that holds the pod CIDR
}

// DemotionStatus is a prefix that is announced as the worse way, with the reason.
type DemotionStatus struct {
	Prefix string `json:"prefix"`
	Reason string `json:"reason"`
}

// of makes it the present status, with the basis of its lists.
func (s *Status) of(b Basis) *Status {
	s.basis, s.basis.passed, s.At = b, time.Now(), time.Now().UTC()
	return s
}

// fill works out what is long and seldom looked at.
func (s *Status) fill(sessions []bgp.SessionState, silence map[string]time.Duration) {
	s.Sessions = sessionStatus(sessions)
	refused := s.basis.Plan.Refused.Edit(nil, s.basis.OnLinks)
	s.Refusals, s.Exempt, s.Unrouted = refusals(refused), exempt(s.basis.Offers, refused), unrouted(s.basis.Plan.Routing.Refusals)
	s.Overdue = []RefusalStatus{}
	for _, q := range s.basis.Overdue {
		reason := lb.ProxyRulesOverdue
		if q.Lost {
			reason = lb.ProxyRulesLost
		}
		s.Overdue = append(s.Overdue, RefusalStatus{Service: q.Service.String(), VIP: q.VIP.String(), Reason: string(reason)})
	}
	s.Demoted = []DemotionStatus{}
	for d := range s.basis.Plan.Demoted.All() {
		s.Demoted = append(s.Demoted, DemotionStatus{d.Prefix.String(), string(d.Reason)})
	}
	s.Routes = RoutesStatus{
		Wanted: s.basis.Reached.Want, Held: s.basis.Reached.Have, Failed: inventory.Strings(s.basis.Reached.Failed),
		Routes: append([]string{}, inventory.Strings(s.basis.Plan.Routing.Routes)...),
	}
	s.Settings = append([]string{}, inventory.Strings(s.basis.Settings)...)
	s.Staleness = map[string]float64{}
	for kind, d := range silence {
		s.Staleness[kind] = d.Round(time.Millisecond).Seconds()
	}
}

func refusals(all sorted.List[advertise.Refusal]) []RefusalStatus {
	out := make([]RefusalStatus, 0, all.Len())
	for refusal := range all.All() {
		status := RefusalStatus{Router: refusal.Router, Reason: string(refusal.Reason)}
		if refusal.VIP.IsValid() {
			status.Service, status.VIP = refusal.Service.String(), refusal.VIP.String()
		}
		if refusal.PodCIDR.IsValid() {
			status.PodCIDR = refusal.PodCIDR.String()
		}
		out = append(out, status)
	}
	return out
}

// exempt are the VIPs that are announced to some router, or answered for, and that kube-proxy is not asked about.
func exempt(offers sorted.List[advertise.Offer], refused sorted.List[advertise.Refusal]) []RefusalStatus {
	out := []RefusalStatus{}
	for offer := range offers.All() {
		reason := offer.Frontend.Proxy.Reason()
		if reason == "" {
			continue
		}
		no, is := refused.Next(advertise.Refusal{Service: offer.Service, VIP: offer.VIP}) // that names no router comes first
		if is && no.Service == offer.Service && no.VIP == offer.VIP && no.Router == "" {
			continue
		}
		out = append(out, RefusalStatus{Service: offer.Service.String(), VIP: offer.VIP.String(), Reason: string(reason)})
	}
	return out
}

func unrouted(all []routing.Refusal) []RefusalStatus {
	out := make([]RefusalStatus, 0, len(all))
	for _, r := range all {
		out = append(out, RefusalStatus{Node: r.Node, PodCIDR: r.CIDR.String(), Reason: string(r.Reason), Other: r.Other})
	}
	return out
}

// holdTime returns the hold time of a session that is up; empty: it is not.
func holdTime(s bgp.SessionState) string {
	if !s.Up {
		return ""
	}
	return s.HoldTime.String()
}

func sessionStatus(all []bgp.SessionState) []SessionStatus {
	out := make([]SessionStatus, 0, len(all))
	for _, state := range all {
		status := SessionStatus{
			Router: state.Router, Address: state.Addr.String(), Phase: state.Phase, Up: state.Up, Since: state.Since.UTC(), Cause: string(state.Cause), Detail: state.Detail,
			BFD: state.BFD, HoldTime: holdTime(state), Losses: state.Losses, Flaps: state.Flaps, HeldUntil: state.HeldUntil.UTC(), Accepted: state.Accepted, Refused: state.Refused, Announced: append([]string{}, inventory.Strings(state.Announced)...),
		}
		for _, r := range state.Refusals {
			status.Refusals = append(status.Refusals, RefusedStatus{r.Prefix.String(), string(r.Reason), r.Detail})
		}
		out = append(out, status)
	}
	return out
}

func (s *Status) isStuck() bool {
	return !s.basis.passed.IsZero() && time.Since(s.basis.passed) > stuckAfter
}
