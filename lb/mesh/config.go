package mesh

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/lb/advertise"
)

// DefaultTimers are the timers of a link whose Config has none.
var DefaultTimers = bfd.Timers{Interval: 100 * time.Millisecond, Multiplier: 3}

// Machine is another machine of a subnet.
type Machine struct {
	Name string
	Addr netip.Addr // in the subnet
}

// Config is the mesh of one subnet.
type Config struct {
	Subnet      netip.Prefix
	Self        netip.Addr // of this machine, in the subnet
	Machines    []Machine  // the others that this machine is to watch
	Timers      bfd.Timers // zero: DefaultTimers
	Witness     []netip.Addr
	RestartTime time.Duration // how long a machine may be Holding after a loss
	Leaving     bool          // ask the others to own
}

// normal is the configuration with its defaults, sorted, without this machine and without
// machines that it has twice.
func (c Config) normal() Config {
	if c.Timers == (bfd.Timers{}) {
		c.Timers = DefaultTimers
	}
	c.Machines = slices.DeleteFunc(slices.Clone(c.Machines), func(m Machine) bool { return m.Addr == c.Self })
	slices.SortFunc(c.Machines, compareMachines)
	c.Machines = slices.CompactFunc(c.Machines, func(a, b Machine) bool { return a.Addr == b.Addr })
	c.Witness = slices.Clone(c.Witness)
	return c
}

func compareMachines(a, b Machine) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), a.Addr.Compare(b.Addr))
}

func (c Config) detection() time.Duration {
	return c.Timers.Interval * time.Duration(c.Timers.Multiplier)
}

// Options are the settings and dependencies of a Mesh for as long as it lives.
type Options struct {
	Log *slog.Logger // nil: nothing is logged
	// Answers reports whether the kernel of a host answers for its own address, by ARP or
	// neighbor discovery, three tries within about 100 ms. Nil: no host answers.
	Answers   func(ctx context.Context, subnet netip.Prefix, addr netip.Addr) bool
	Listeners *bfd.Listeners // nil: of its own
}

// LinkState is the known state of a subnet.
type LinkState struct {
	Subnet   netip.Prefix
	Machines []MachineState // by name
	Witness  advertise.Witness
	// Resumed is the time at which this process last went on after it had stood still for a detection time, or began: on the clock of
	// package uptime. Others may have taken over its VIPs.
	Resumed time.Duration
}

// Standing returns the standing of the machine of a name; [advertise.Unheard] where there is none.
func (s LinkState) Standing(name string) advertise.Standing {
	for _, m := range s.Machines {
		if m.Name == name {
			return m.Standing
		}
	}
	return advertise.Unheard
}

// MachineState is the known state of another machine.
type MachineState struct {
	Machine
	Standing advertise.Standing
	Since    time.Time
	Losses   uint64 // times that the path to it was lost
}
