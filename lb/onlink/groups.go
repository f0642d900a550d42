package onlink

import (
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// groupsPerSocket keeps the memberships of one socket within net.core.optmem_max.
const groupsPerSocket = 64

// groups are the multicast groups that the kernel is a member of on one interface. It
// reports them by MLD, so that a snooping switch lets their frames through.
type groups struct {
	open    opener
	index   int // of the interface
	sockets []*groupSocket
	joined  map[netip.Addr]*groupSocket
}

type groupSocket struct {
	file    *os.File
	members int
}

// set joins and leaves groups until these are the ones joined.
func (g *groups) set(want map[netip.Addr]bool) error {
	for group, s := range g.joined {
		if !want[group] {
			_ = s.change(unix.IPV6_LEAVE_GROUP, group, g.index)
			s.members--
			delete(g.joined, group)
		}
	}
	var failed error
	for group := range want {
		if g.joined[group] == nil {
			if err := g.join(group); err != nil {
				failed = fmt.Errorf("group %v: %w", group, err)
			}
		}
	}
	return failed
}

func (g *groups) join(group netip.Addr) error {
	socket, err := g.socket()
	if err != nil {
		return err
	}
	if err := socket.change(unix.IPV6_JOIN_GROUP, group, g.index); err != nil {
		return err
	}
	socket.members++
	if g.joined == nil {
		g.joined = map[netip.Addr]*groupSocket{}
	}
	g.joined[group] = socket
	return nil
}

// socket returns one with room for another membership.
func (g *groups) socket() (*groupSocket, error) {
	for _, s := range g.sockets {
		if s.members < groupsPerSocket {
			return s, nil
		}
	}
	fd, err := g.open(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s := &groupSocket{file: os.NewFile(uintptr(fd), "group")}
	g.sockets = append(g.sockets, s)
	return s, nil
}

func (s *groupSocket) change(option int, group netip.Addr, index int) error {
	return control(s.file, func(fd int) error {
		return unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, option, &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(index)})
	})
}

// close leaves all groups.
func (g *groups) close() {
	for _, s := range g.sockets {
		s.file.Close()
	}
	g.sockets, g.joined = nil, nil
}
