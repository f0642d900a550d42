package diagnose

import (
	"net/netip"
	"slices"
	"time"
)

// Agent is the answer of an agent at /status; docs/reference/agent.md has the fields.
type Agent struct {
	Node         string         `json:"node"`
	Machine      string         `json:"machine"`
	MachineState string         `json:"machineState"`
	Rack         string         `json:"rack"`
	Ready        bool           `json:"ready"`
	WaitingFor   string         `json:"waitingFor"`
	FromDisk     bool           `json:"fromDisk"`
	ProxyHealthy bool           `json:"proxyHealthy"`
	Draining     bool           `json:"draining"`
	Withdrawn    bool           `json:"withdrawn"`
	Condition    string         `json:"condition"`
	At           time.Time      `json:"at"`
	Routes       AgentRoutes    `json:"routes"`
	Sessions     []AgentSession `json:"sessions"`
	Refusals     []AgentRefusal `json:"refusals"`
	Overdue      []AgentRefusal `json:"overdue"`
	Unrouted     []AgentRefusal `json:"unrouted"`
	Settings     []string       `json:"settings"`
	Links        []AgentLink    `json:"links"`
}

// AgentSession is a session with a router.
type AgentSession struct {
	Router    string         `json:"router"`
	Address   string         `json:"address"`
	Phase     string         `json:"phase"`
	Up        bool           `json:"up"`
	Since     time.Time      `json:"since"`
	Cause     string         `json:"cause"`
	Detail    string         `json:"detail"`
	BFD       string         `json:"bfd"`
	HoldTime  string         `json:"holdTime,omitempty"` // of a session that is up
	Losses    uint64         `json:"losses"`
	Flaps     int            `json:"flaps"`
	HeldUntil time.Time      `json:"heldUntil,omitzero"`
	Announced []netip.Prefix `json:"announced"` // in the adj-RIB-out
	Accepted  int            `json:"accepted"`
	Refused   int            `json:"refused"`
	Refusals  []AgentKept    `json:"refusals"`
}

// AgentKept is a prefix that a session keeps back.
type AgentKept struct {
	Prefix string `json:"prefix"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// AgentRoutes is the agent's part of the kernel's tables.
type AgentRoutes struct {
	Wanted int      `json:"wanted"`
	Held   int      `json:"held"`
	Failed []string `json:"failed"`
}

// AgentRefusal is the refusal of an agent to announce or route something, with its reason.
type AgentRefusal struct {
	Service string `json:"service"`
	VIP     string `json:"vip"`
	Node    string `json:"node"`
	PodCIDR string `json:"podCIDR"`
	Router  string `json:"router"`
	Reason  string `json:"reason"`
	Other   string `json:"other"`
}

// Answer is the outcome of asking an agent.
type Answer struct {
	Agent Agent
	Err   string // why it could not be asked; empty: it answered
	Help  string // what would help then
}

// answerOf is the answer of a Node's agent; one that was not asked could not be.
func answerOf(answers map[string]Answer, node string) Answer {
	answer, asked := answers[node]
	if !asked {
		answer.Err = "it was not asked"
	}
	return answer
}

// tells reports whether a session that is up has a prefix that has the address: its own, or an aggregate.
func (s AgentSession) tells(vip netip.Addr) bool {
	return s.Up && slices.ContainsFunc(s.Announced, func(p netip.Prefix) bool { return p.Contains(vip) })
}

// tells reports whether some session tells its router of an address.
func (a Agent) tells(vip netip.Addr) bool {
	return slices.ContainsFunc(a.Sessions, func(s AgentSession) bool { return s.tells(vip) })
}

// down describes a session that is down, with its cause.
func (s AgentSession) down() string {
	text := s.Router + " (" + s.Address + ") is down"
	if s.Cause != "" {
		text += ": " + s.Cause
	}
	if s.Detail != "" {
		text += ": " + s.Detail
	}
	return text
}
