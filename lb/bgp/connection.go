package bgp

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/inventory"
)

// connection is an established TCP connection of this machine.
type connection struct {
	local, remote netip.AddrPort
	user, inode   uint32 // of its socket; inode 0: no program has accepted it yet
}

func (c connection) String() string {
	return fmt.Sprintf("%v to %v of user %d", c.local, c.remote, c.user)
}

// bgpPort is where a speaker listens if nobody says otherwise.
const bgpPort = 179

// heldByOther looks for the connection over which another program of this machine speaks BGP
// with a session's router, from the session's own address. Routers have one session with an
// address, so ours would have to take its place.
//
// It asks the kernel for TCP connections, which any process may. Where that fails nothing is
// known of others.
func heldByOther(s inventory.Session) (connection, bool) {
	local := s.Local
	if !local.IsValid() {
		local = linkLocal(s.RouterAddr.Zone())
	}
	if local == s.RouterAddr {
		return connection{}, false // the router is a program of this machine: one end is always its own
	}
	for _, ports := range [][2]uint16{{0, s.Port}, {bgpPort, 0}} { // either end may have begun
		for _, c := range connections(local, s.RouterAddr, ports[0], ports[1]) {
			if c.inode != 0 && !isOurs(c.inode) {
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
		return true // whose it is cannot be said
	}
	name := fmt.Sprintf("socket:[%d]", inode)
	for _, f := range files {
		if target, err := os.Readlink(own + "/" + f.Name()); err == nil && target == name {
			return true
		}
	}
	return false
}

// socketID, diagRequest and diagReply are inet_diag_sockid, inet_diag_req_v2 and inet_diag_msg
// of linux/inet_diag.h.
type (
	socketID struct {
		LocalPort, RemotePort [2]byte
		Local, Remote         [16]byte
		Interface             uint32
		Cookie                [2]uint32
	}
	diagRequest struct {
		Family, Protocol, Extensions, _ uint8
		States                          uint32
		ID                              socketID
	}
	diagReply struct {
		Family, State, Timer, Retransmits uint8
		ID                                socketID
		Expires, Receiving, Sending       uint32
		User, Inode                       uint32
	}
)

const tcpEstablished = 1 // TCP_ESTABLISHED of linux/tcp.h

// connections lists established ones between two addresses with these ports; 0: any. A connection
// over IPv4 may be one of a socket for both families.
func connections(local, remote netip.Addr, localPort, remotePort uint16) (all []connection) {
	families := []uint8{unix.AF_INET6}
	if remote.Is4() {
		families = append(families, unix.AF_INET)
	}
	for _, f := range families {
		req := diagRequest{Family: f, Protocol: unix.IPPROTO_TCP, States: 1 << tcpEstablished}
		binary.BigEndian.PutUint16(req.ID.LocalPort[:], localPort)
		binary.BigEndian.PutUint16(req.ID.RemotePort[:], remotePort)
		for _, r := range dumpSockets(req) {
			c := connection{local: r.end(r.ID.Local, r.ID.LocalPort), remote: r.end(r.ID.Remote, r.ID.RemotePort), user: r.User, inode: r.Inode}
			if c.local.Addr() == local.WithZone("") && c.remote.Addr() == remote.WithZone("") && r.isOn(remote.Zone()) {
				all = append(all, c)
			}
		}
	}
	return all
}

func (r diagReply) end(addr [16]byte, port [2]byte) netip.AddrPort {
	a := netip.AddrFrom16(addr).Unmap()
	if r.Family == unix.AF_INET {
		a = netip.AddrFrom4([4]byte(addr[:4]))
	}
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(port[:]))
}

// isOn reports whether a socket is bound to an interface, as those of link-local addresses are.
func (r diagReply) isOn(device string) bool {
	if device == "" {
		return true
	}
	link, err := net.InterfaceByName(device)
	return err == nil && uint32(link.Index) == r.ID.Interface
}

// dumpSockets asks the kernel for the sockets that a request describes. It filters by state and
// ports only.
func dumpSockets(req diagRequest) (all []diagReply) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	message := unix.NlMsghdr{
		Len: uint32(unix.SizeofNlMsghdr + binary.Size(req)), Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP,
	}
	b, _ := binary.Append(nil, binary.NativeEndian, message) // what has a fixed size can be written
	b, _ = binary.Append(b, binary.NativeEndian, req)
	if unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return nil
	}
	for buffer, more := make([]byte, 1<<16), true; more; {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err == unix.EINTR {
			continue
		}
		more = err == nil
		if more {
			all, more = appendReplies(all, buffer[:n])
		}
	}
	return all
}

// appendReplies reads what the kernel sent at once, and reports whether more will follow.
func appendReplies(all []diagReply, b []byte) ([]diagReply, bool) {
	messages, err := syscall.ParseNetlinkMessage(b)
	for _, m := range messages {
		var r diagReply
		if m.Header.Type != unix.SOCK_DIAG_BY_FAMILY { // the end, or an error
			return all, false
		}
		if _, err := binary.Decode(m.Data, binary.NativeEndian, &r); err == nil {
			all = append(all, r)
		}
	}
	return all, err == nil
}
