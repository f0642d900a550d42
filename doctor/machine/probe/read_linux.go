package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/doctor"
	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/routing/kernel"
)

// Read reads the machine that it runs on, in its network namespace. Of the inventory, nil if there is none, the machine has the name; empty:
// it is told by its addresses, or else by the name of the host. Only the context ends it early; what cannot be read is noted.
func Read(ctx context.Context, inv *inventory.Inventory, name string) (machine.Facts, error) {
	return (&reader{every: askEvery}).read(ctx, inv, name)
}

func (r *reader) read(ctx context.Context, inv *inventory.Inventory, name string) (machine.Facts, error) {
	r.host()
	r.addresses()
	if err := r.expect(inv, name); err != nil {
		return machine.Facts{}, err
	}
	r.settings()
	r.sysctls()
	r.container("/")
	r.sysctlFiles("/")
	r.sockets()
	r.programs()
	r.features()
	r.clock()
	r.routers()
	r.ask(ctx)
	r.connect(ctx)
	slices.Sort(r.facts.Unread)
	return r.facts, ctx.Err()
}

// reader fills the facts.
type reader struct {
	facts  machine.Facts
	hidden bool          // some of the machine's processes are
	every  time.Duration // between two frames on a link
}

// unless notes that something could not be read.
func (r *reader) unless(what string, err error) bool {
	if err != nil {
		r.facts.Unread = append(r.facts.Unread, what+": "+err.Error())
	}
	return err == nil
}

// host reads the names of the host and of the kernel's release.
func (r *reader) host() {
	var name unix.Utsname
	if r.unless("the kernel's release", unix.Uname(&name)) {
		r.facts.Host, r.facts.Kernel = unix.ByteSliceToString(name.Nodename[:]), unix.ByteSliceToString(name.Release[:])
	}
}

// addresses reads those of all interfaces but the loopback's own.
func (r *reader) addresses() {
	all, err := net.Interfaces()
	r.unless("interfaces", err)
	for _, nic := range all {
		addrs, err := nic.Addrs()
		r.unless("addresses of "+nic.Name, err)
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || p.Addr().IsLoopback() {
				continue
			}
			r.facts.Addresses = append(r.facts.Addresses, machine.Address{Interface: nic.Name, Prefix: p, Up: nic.Flags&net.FlagUp != 0, Carrier: nic.Flags&net.FlagRunning != 0})
		}
	}
	slices.SortFunc(r.facts.Addresses, func(a, b machine.Address) int {
		return cmp.Or(strings.Compare(a.Interface, b.Interface), a.Prefix.Compare(b.Prefix))
	})
}

// expect finds the machine in the inventory.
func (r *reader) expect(inv *inventory.Inventory, name string) error {
	if inv == nil {
		r.facts.Unread = append(r.facts.Unread, "pools, routers and links: no inventory was given")
		return nil
	}
	own, known := inv.Machine(name)
	if name == "" {
		own, known = machine.Find(inv, r.facts.Host, r.facts.Addresses)
	} else if !known {
		return fmt.Errorf("%w %q", inventory.ErrNoMachine, name)
	}
	if !known {
		r.facts.Unread = append(r.facts.Unread, "pools, routers and links: the inventory has no machine with an address of this one or the name "+r.facts.Host)
		return nil
	}
	r.facts.Expected = machine.Expect(inv, own)
	return nil
}

// own are the machine's addresses; without an inventory those that it would reach others from.
func (r *reader) own() (all []netip.Addr) {
	if r.facts.Expected != nil {
		return r.facts.Expected.Addresses
	}
	for _, elsewhere := range []string{"192.0.2.1", "2001:db8::1"} { // of documentation: nothing is sent by a connect of UDP
		conn, err := net.Dial("udp", net.JoinHostPort(elsewhere, "9"))
		if err != nil {
			continue
		}
		if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			all = append(all, local.AddrPort().Addr().Unmap())
		}
		conn.Close()
	}
	return all
}

// settings reads the settings that the agent reads, too.
func (r *reader) settings() {
	var routes []routing.Route
	if e := r.facts.Expected; e != nil && e.Mode == inventory.ModeFabric {
		var routers []netip.Addr
		for _, s := range e.Sessions {
			routers = append(routers, s.Address)
		}
		routes = []routing.Route{{Dst: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Via: routing.Via(routers...)}}
	}
	bad, err := kernel.BadSettings(r.own(), routes)
	r.unless("settings of the kernel", err)
	for _, s := range bad {
		r.facts.Settings = append(r.facts.Settings, doctor.Setting{Name: s.Name, Value: s.Value, Want: s.Want})
	}
}

// sysctls reads other settings. Those that there are not, as without IPv6 or conntrack, are left out.
func (r *reader) sysctls() {
	var names []string
	for _, a := range r.facts.Addresses {
		names = append(names, a.Interface)
	}
	r.facts.Sysctls = map[string]string{}
	for _, name := range machine.SysctlsRead(slices.Compact(names)) { // they are sorted
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if r.unless(name, err) {
			r.facts.Sysctls[name] = strings.TrimSpace(string(value))
		}
	}
}
