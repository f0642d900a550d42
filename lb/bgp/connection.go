package bgp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/inventory"
)

// connection is an established TCP connection of this machine.
type connection struct {
	local, remote netip.AddrPort
	user, inode   uint32 // of its socket; inode 0: no program has accepted it yet
}

// String returns the ends of the connection, and the user of its program.
func (c connection) String() string {
	return fmt.Sprintf("%v to %v of user %d", c.local, c.remote, c.user)
}

// bgpPort is the TCP port of BGP (RFC 4271).
const bgpPort = 179

// heldByOther returns the connection over which another program of this machine speaks BGP
// with a session's router, from the session's own address. Routers have one session with an
// address, so ours would replace it.
//
// It lists the TCP connections of the kernel, which any process may. Where that fails none of another
// program is found.
func heldByOther(session inventory.Session) (connection, bool) {
	local := session.Local
	if !local.IsValid() {
		local = linkLocal(session.RouterAddr.Zone())
	}
	if local == session.RouterAddr {
		return connection{}, false // the router is a program of this machine: one end is always the router's
	}
	for _, ports := range [][2]uint16{{0, session.Port}, {bgpPort, 0}} { // either end may have connected
		list := func() []connection { return connections(local, session.RouterAddr, ports[0], ports[1]) }
		for _, c := range list() {
			if c.inode != 0 && !isOurs(c.inode) && slices.Contains(list(), c) { // our own may have ended meanwhile
				return c, true
			}
		}
	}
	return connection{}, false
}

// isOurs reports whether a socket is one of this process.
func isOurs(inode uint32) bool {
	const own = "/proc/self/fd"
	files, err := os.ReadDir(own)
	if err != nil {
		return true // the owner is not known
	}
	name := fmt.Sprintf("socket:[%d]", inode)
	for _, f := range files {
		if target, err := os.Readlink(own + "/" + f.Name()); err == nil && target == name {
			return true
		}
	}
	return false
}

// tcpEstablished is TCP_ESTABLISHED of linux/tcp.h.
const tcpEstablished = 1

// connections lists the established connections between two addresses with these ports; 0: any. A connection
// over IPv4 may be one of a socket for both families.
func connections(local, remote netip.Addr, localPort, remotePort uint16) (all []connection) {
	families := []uint8{unix.AF_INET6}
	if remote.Is4() {
		families = append(families, unix.AF_INET)
	}
	is := func(port, want uint16) bool { return want == 0 || port == want }
	for _, f := range families {
		sockets, _ := netlink.SocketDiagTCP(f) // a dump that was interrupted has most of them
		for _, s := range sockets {
			c := connection{local: end(s.ID.Source, s.ID.SourcePort), remote: end(s.ID.Destination, s.ID.DestinationPort), user: s.UID, inode: s.INode}
			if s.State == tcpEstablished && is(c.local.Port(), localPort) && is(c.remote.Port(), remotePort) &&
				c.local.Addr() == local.WithZone("") && c.remote.Addr() == remote.WithZone("") && isOn(s, remote.Zone()) {
				all = append(all, c)
			}
		}
	}
	return all
}

// end returns one end of a connection, as the kernel reports it.
func end(ip net.IP, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip) // the kernel's are of four bytes or sixteen
	return netip.AddrPortFrom(a.Unmap(), port)
}

// isOn reports whether a socket is bound to an interface, as those of link-local addresses are.
func isOn(s *netlink.Socket, device string) bool {
	if device == "" {
		return true
	}
	link, err := net.InterfaceByName(device)
	return err == nil && uint32(link.Index) == s.ID.Interface
}
