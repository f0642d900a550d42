package machine

import (
	"net/netip"

	"plinth.dev/plinth/doctor"
)

// Facts are the state that was read of a machine. Its slices are sorted.
type Facts struct {
	Host     string    `json:"host"`               // as the kernel calls it
	Kernel   string    `json:"kernel"`             // its release, as 6.12.1-amd64
	Expected *Expected `json:"expected,omitempty"` // by the inventory; nil: there is none, or the machine is not in it
	// Settings are the settings of the machine's kernel that the agent would report.
	Settings []doctor.Setting  `json:"settings,omitempty"`
	Sysctls  map[string]string `json:"sysctls,omitempty"` // others, by their names with slashes
	// SysctlFiles are those that give settings a value at boot, by the settings' names with slashes, in the order in which they are read.
	SysctlFiles map[string][]string `json:"sysctlFiles,omitempty"`
	Container   bool                `json:"container,omitempty"` // it was read in one: commands are for the host
	Addresses   []Address           `json:"addresses,omitempty"`
	Sockets     []Socket            `json:"sockets,omitempty"`
	// Programs are those of [ProgramsRead] that run. Of those that hold what only a network namespace has they are of this one.
	Programs []string       `json:"programs,omitempty"`
	Answers  []Answer       `json:"answers,omitempty"` // of hosts, for addresses of pools and of the machine
	Asked    []Asked        `json:"asked,omitempty"`   // how many addresses of pools
	Routers  []Router       `json:"routers,omitempty"`
	Unusable []UnusableLink `json:"unusable,omitempty"`
	Missing  []string       `json:"missing,omitempty"` // of the kernel; see the constants
	// Unsynchronized: the kernel says that nobody keeps its clock (STA_UNSYNC of adjtimex).
	Unsynchronized bool     `json:"unsynchronized,omitempty"`
	Unread         []string `json:"unread,omitempty"` // what could not be looked at, and why
	Notes          []string `json:"notes,omitempty"`  // how some was looked at
}

// What a kernel may lack.
const (
	IPv6          = "ipv6"
	PacketSockets = "packet sockets"
	TCPMD5        = "tcp md5"
	VXLAN         = "vxlan"
)

// Address is an address of an interface.
type Address struct {
	Interface string       `json:"interface"`
	Prefix    netip.Prefix `json:"prefix"` // with the bits of the host
	Up        bool         `json:"up"`     // the interface is set up
	Carrier   bool         `json:"carrier"`
}

// Socket is a socket of TCP or UDP: one that listens, or a connection of BGP's.
type Socket struct {
	Protocol string         `json:"protocol"` // TCP or UDP
	Local    netip.AddrPort `json:"local"`
	Remote   netip.AddrPort `json:"remote,omitzero"`   // invalid: it listens
	Program  string         `json:"program,omitempty"` // whose it is; empty: it is not known
	PID      int            `json:"pid,omitempty"`
}

// listens tells whether whatever is sent to the port arrives there.
func (s Socket) listens() bool { return !s.Remote.IsValid() }

// Answer is the answer of a host on the link.
type Answer struct {
	Interface string     `json:"interface"`
	Address   netip.Addr `json:"address"`
	MAC       string     `json:"mac"`
	Machine   bool       `json:"machine,omitempty"` // it is the MAC of another machine of the inventory
}

// Asked is how many addresses of pools were asked for on an interface.
type Asked struct {
	Interface string `json:"interface"`
	IPv6      bool   `json:"ipv6,omitempty"`
	Addresses int    `json:"addresses"`
}

// UnusableLink is a link of the inventory on which nobody can answer for VIPs.
type UnusableLink struct {
	Subnet netip.Prefix `json:"subnet"`
	Detail string       `json:"detail"`
}

// Router is the state of a router of the inventory as the machine reaches it.
type Router struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
	OnLink  string     `json:"onLink,omitempty"`  // the interface that has an address in its subnet; empty: none has
	Device  string     `json:"device,omitempty"`  // the interface that the kernel would send by; empty: there is no route
	Gateway netip.Addr `json:"gateway,omitzero"`  // the next hop of that route; invalid: it is on the link
	Asked   bool       `json:"asked,omitempty"`   // on the link, for its MAC
	MAC     string     `json:"mac,omitempty"`     // that it answered with; empty: it did not
	Connect Connect    `json:"connect,omitempty"` // what a connection to its port of BGP met
}

// Connect is the outcome of a connection.
type Connect string

// What a connection can meet.
const (
	NotTried Connect = "" // a session is there already, or nothing leads there
	Accepted Connect = "accepted"
	Refused  Connect = "refused"
	Silent   Connect = "silent"
)

// has tells whether an interface of the machine has an address: of several, as where it was left on the one that a bridge took, the one that
// has a carrier.
func (f Facts) has(a netip.Addr) (at Address, has bool) {
	for _, have := range f.Addresses {
		if have.Prefix.Addr() == a && (!has || !(at.Up && at.Carrier) && have.Up && have.Carrier) {
			at, has = have, true
		}
	}
	return at, has
}

// object names the machine in findings.
func (f Facts) object() string {
	if f.Expected != nil {
		return "machine " + f.Expected.Machine
	}
	return "machine " + f.Host
}
