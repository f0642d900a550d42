package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/routing/kernel"
)

// connectWithin is how long a router has to answer a connection.
const connectWithin = time.Second

// routers finds the way to each router, from the address that its session is to have.
func (r *reader) routers() {
	if r.facts.Expected == nil {
		return
	}
	for _, session := range r.facts.Expected.Sessions {
		router := machine.Router{Name: session.Router, Address: session.Address}
		if subnet, on := r.subnetOf(session); subnet.IsValid() {
			router.OnLink = on.Interface
		}
		from := session.Local
		if !r.hasAddress(from) { // another finding tells that
			from = netip.Addr{}
		}
		var err error
		router.Device, router.Gateway, err = kernel.Towards(session.Address, from)
		if r.unless("the route to router "+session.Router, err) {
			r.facts.Routers = append(r.facts.Routers, router)
		}
	}
}

func (r *reader) hasAddress(a netip.Addr) bool {
	return slices.ContainsFunc(r.facts.Addresses, func(at machine.Address) bool { return at.Prefix.Addr() == a })
}

// subnetOf is the subnet of a router in which the machine has an address: that of the session, or else the longest.
func (r *reader) subnetOf(session machine.Session) (netip.Prefix, machine.Address) {
	var best machine.Address
	for _, at := range r.facts.Addresses {
		if !at.Up || at.Prefix.IsSingleIP() || !at.Prefix.Contains(session.Address) || session.Address.IsLinkLocalUnicast() {
			continue
		}
		own, before := at.Prefix.Addr() == session.Local, best.Prefix.Addr() == session.Local && best.Prefix.IsValid()
		if own && !before || own == before && at.Prefix.Bits() > best.Prefix.Bits() {
			best = at
		}
	}
	return best.Prefix.Masked(), best
}

// routersOn returns the routers that are asked for on a link.
func (r *reader) routersOn(link netip.Prefix) (all []machine.Router) {
	for _, router := range r.facts.Routers {
		if subnet, _ := r.subnetOf(r.sessionWith(router)); subnet == link {
			all = append(all, router)
		}
	}
	return all
}

func (r *reader) sessionWith(router machine.Router) machine.Session {
	all := r.facts.Expected.Sessions
	return all[slices.IndexFunc(all, func(s machine.Session) bool { return s.Router == router.Name && s.Address == router.Address })]
}

// connect tries routers with which nobody here has or may be about to have a session: a connection beside one would end it at routers that take it
// for a restart (RFC 4724, section 5). Where the router has to know a password or the TTL it drops what this would send.
func (r *reader) connect(ctx context.Context) {
	for i, router := range r.facts.Routers {
		session := r.sessionWith(router)
		elsewhere := router.OnLink != "" && router.OnLink != router.Device
		held := session.Address.Zone() != "" || r.hasAddress(session.Local) // else another finding tells that
		if session.Password || session.Secured || elsewhere || !held || !r.sends(router.Device) || router.Asked && router.MAC == "" {
			continue
		}
		var err error
		if r.facts.Routers[i].Connect, err = r.try(ctx, session); err != nil {
			r.facts.Unread = append(r.facts.Unread, fmt.Sprintf("whether router %s, %s, takes connections: %v", router.Name, router.Address, err))
		}
	}
}

// sends tells whether what is sent by an interface leaves it.
func (r *reader) sends(device string) bool {
	return slices.ContainsFunc(r.facts.Addresses, func(a machine.Address) bool { return a.Interface == device && a.Up && a.Carrier })
}

// try connects unless a session is there, and looks for one right before.
func (r *reader) try(ctx context.Context, session machine.Session) (machine.Connect, error) {
	if r.hidden {
		return machine.NotTried, errors.New("a BGP speaker may run here: want to be in the machine's PID namespace")
	}
	if connected, err := connectedTo(session.Address); connected || err != nil {
		return machine.NotTried, err
	}
	if r.programs(); len(r.facts.Speakers()) > 0 {
		return machine.NotTried, fmt.Errorf("%s runs here, and may be about to connect", strings.Join(r.facts.Speakers(), ", "))
	}
	return dial(ctx, session)
}

// connectedTo tells whether a connection with an address is there, or is about to be: of any port, for each end may have begun.
func connectedTo(to netip.Addr) (bool, error) {
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + table)
		if err != nil && !os.IsNotExist(err) {
			return false, err
		}
		if isConnected(string(text), to) {
			return true, nil
		}
	}
	return false, nil
}

// isConnected looks for the connection in a table of proc(5).
func isConnected(text string, to netip.Addr) bool {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !slices.Contains([]string{established, synSent, synReceived}, fields[3]) {
			continue
		}
		if remote, ok := addrPortIn(fields[2]); ok && remote.Addr() == to.WithZone("") {
			return true
		}
	}
	return false
}

// dial connects, and hangs up at once. Its error is another one than that the router refuses or is silent.
func dial(ctx context.Context, s machine.Session) (machine.Connect, error) {
	dialer := net.Dialer{Timeout: connectWithin}
	if s.Address.Zone() == "" {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.Local, 0))
	}
	c, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(s.Address, s.Port).String())
	var timeout net.Error
	switch {
	case err == nil:
		c.Close()
		return machine.Accepted, nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return machine.Refused, nil
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, syscall.EHOSTUNREACH):
		return machine.Silent, nil
	}
	return machine.NotTried, err
}
