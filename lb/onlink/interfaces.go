package onlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/inventory"
)

// networkInterface is an interface as the kernel has it.
type networkInterface struct {
	index    int
	name     string
	mac      MAC
	ethernet bool
	carrier  bool // it is up, and so is its link: what is sent leaves it
}

// interfaces holds the interfaces of this machine, and its addresses on them.
type interfaces struct {
	byIndex map[int]networkInterface
	having  map[netip.Addr][]int // interfaces that have the address, sorted
}

// with is the interface that has the address. Of several, one whose link is up.
func (i *interfaces) with(addr netip.Addr) (networkInterface, bool) {
	var best networkInterface
	for _, index := range i.having[addr] {
		if f := i.byIndex[index]; best.index == 0 || f.carrier && !best.carrier {
			best = f
		}
	}
	return best, best.index != 0
}

// kernel asks for interfaces and addresses by rtnetlink, and tells of changes.
type kernel struct {
	open opener
}

// interfaces reads all of them.
func (k *kernel) interfaces() (*interfaces, error) {
	all := &interfaces{byIndex: map[int]networkInterface{}, having: map[netip.Addr][]int{}}
	fd, err := k.open(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("rtnetlink: %w", err)
	}
	defer unix.Close(fd)
	for attempt := 0; ; attempt++ {
		err = errors.Join(dump(fd, unix.RTM_GETLINK, all.takeLink), dump(fd, unix.RTM_GETADDR, all.takeAddr))
		if !errors.Is(err, errInterrupted) || attempt == 3 {
			break
		}
	}
	for addr, indices := range all.having {
		all.having[addr] = inventory.SortedOnce(indices)
	}
	return all, err
}

// errInterrupted: something changed during a dump, which may lack something.
var errInterrupted = errors.New("rtnetlink: dump was interrupted")

// netlinkTimeout bounds the wait for an answer of the kernel's, which comes at once.
const netlinkTimeout = 5 * time.Second

// dump sends a request for all objects of a kind and hands over the answers.
func dump(fd int, request uint16, take func(syscall.NetlinkMessage)) error {
	timeout := unix.NsecToTimeval(netlinkTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return err
	}
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], request)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("rtnetlink: %w", err)
	}
	interrupted := false
	buf := make([]byte, 64<<10)
	for {
		size, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("rtnetlink: %w", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:size])
		if err != nil {
			return fmt.Errorf("rtnetlink: %w", err)
		}
		for _, message := range messages {
			interrupted = interrupted || message.Header.Flags&unix.NLM_F_DUMP_INTR != 0
			switch {
			case message.Header.Type == unix.NLMSG_DONE && interrupted:
				return errInterrupted
			case message.Header.Type == unix.NLMSG_DONE:
				return nil
			case message.Header.Type == unix.NLMSG_ERROR:
				return fmt.Errorf("rtnetlink: %w", errorOf(message))
			}
			take(message)
		}
	}
}

func errorOf(m syscall.NetlinkMessage) error {
	if len(m.Data) < 4 {
		return unix.EINVAL
	}
	return unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
}

func (i *interfaces) takeLink(m syscall.NetlinkMessage) {
	if f, ok := linkOf(m); ok {
		i.byIndex[f.index] = f
	}
}

func (i *interfaces) takeAddr(m syscall.NetlinkMessage) {
	if addr, index, ok := addrOf(m); ok {
		i.having[addr] = append(i.having[addr], index)
	}
}

// linkOf reads an interface. An interface without a carrier, or set down, sends nothing. Nor does one whose carrier has just
// come: until the kernel has made it operational (RFC 2863; linkwatch_do_dev of Linux) it has the queueing discipline noop, which
// drops frames and reports no error.
func linkOf(message syscall.NetlinkMessage) (networkInterface, bool) {
	if message.Header.Type != unix.RTM_NEWLINK && message.Header.Type != unix.RTM_DELLINK || len(message.Data) < unix.SizeofIfInfomsg {
		return networkInterface{}, false
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(&message)
	if err != nil {
		return networkInterface{}, false
	}
	const working = unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_RUNNING
	nic := networkInterface{
		index:    int(int32(binary.NativeEndian.Uint32(message.Data[4:]))),
		ethernet: binary.NativeEndian.Uint16(message.Data[2:]) == unix.ARPHRD_ETHER,
		carrier:  binary.NativeEndian.Uint32(message.Data[8:])&working == working,
	}
	for _, a := range attrs {
		switch {
		case a.Attr.Type == unix.IFLA_IFNAME:
			nic.name = unix.ByteSliceToString(a.Value)
		case a.Attr.Type == unix.IFLA_ADDRESS && len(a.Value) == len(nic.mac):
			nic.mac = MAC(a.Value)
		}
	}
	return nic, true
}

// addrOf reads an address of an interface; of a point-to-point one, this machine's.
func addrOf(message syscall.NetlinkMessage) (addr netip.Addr, index int, ok bool) {
	if message.Header.Type != unix.RTM_NEWADDR && message.Header.Type != unix.RTM_DELADDR || len(message.Data) < unix.SizeofIfAddrmsg {
		return netip.Addr{}, 0, false
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(&message)
	if err != nil {
		return netip.Addr{}, 0, false
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.IFA_LOCAL || a.Attr.Type == unix.IFA_ADDRESS && !addr.IsValid() {
			addr, _ = netip.AddrFromSlice(a.Value)
		}
	}
	return addr, int(binary.NativeEndian.Uint32(message.Data[4:])), addr.IsValid()
}

// notifications opens a socket on which the kernel tells of changes.
func (k *kernel) notifications() (*os.File, error) {
	fd, err := k.open(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("rtnetlink: %w", err)
	}
	told := uint32(1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1))
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: told}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("rtnetlink: %w", err)
	}
	return os.NewFile(uintptr(fd), "rtnetlink"), nil
}
