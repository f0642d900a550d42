package kubeproxy

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/lb/advertise"
)

// connect begins a TCP connection to a VIP, asks conntrack where it is passed on to, and
// ends it. Where the machine has no route to the VIP, or lets no such connection out, as
// with loadBalancerSourceRanges that leave it out, there is no evidence to be had.
func (f *netfilter) connect(vip netip.Addr, port port) advertise.Evidence {
	fd, err := socket(vip)
	if err != nil {
		return advertise.Unknown
	}
	defer func() { _ = unix.Close(fd) }()
	err = unix.Connect(fd, sockaddr(netip.AddrPortFrom(vip, port.number)))
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return advertise.Unknown
	}
	from, err := localPort(fd)
	if err != nil {
		return advertise.Unknown
	}
	to, err := f.passedOnTo(from, netip.AddrPortFrom(vip, port.number))
	switch {
	case err != nil, !to.IsValid():
		return advertise.Unknown
	case to == vip:
		f.forget(from, netip.AddrPortFrom(vip, port.number))
		return advertise.Absent
	}
	return advertise.Present
}

// socket is one whose packets get no further than the next machine, and which is reset
// when it is closed.
func socket(a netip.Addr) (fd int, err error) {
	domain, level, option := unix.AF_INET, unix.IPPROTO_IP, unix.IP_TTL
	if a.Is6() {
		domain, level, option = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	}
	fd, err = unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, level, option, 1),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
	)
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func localPort(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)), nil
	}
	return netip.AddrPort{}, errors.Join(err, unix.EAFNOSUPPORT)
}

// Attributes of conntrack, from linux/netfilter/nfnetlink_conntrack.h.
const (
	ctGet          = 1 // IPCTNL_MSG_CT_GET
	ctDelete       = 2 // IPCTNL_MSG_CT_DELETE
	ctTupleOrig    = 1
	ctTupleReply   = 2
	ctTupleIP      = 1
	ctTupleProto   = 2
	ctIPv4Src      = 1
	ctIPv4Dst      = 2
	ctIPv6Src      = 3
	ctIPv6Dst      = 4
	ctProtoNumber  = 1
	ctProtoSrcPort = 2
	ctProtoDstPort = 3
)

// passedOnTo returns the address from which conntrack expects the answer to a TCP connection of this machine;
// invalid: it does not know the connection.
func (f *netfilter) passedOnTo(from, to netip.AddrPort) (netip.Addr, error) {
	object, _, err := f.get(unix.NFNL_SUBSYS_CTNETLINK, ctGet, family(to.Addr()), tuple(from, to))
	if err != nil {
		return netip.Addr{}, err
	}
	src, _ := ends(to.Addr())
	answers, _ := netip.AddrFromSlice(inside(object, ctTupleReply, ctTupleIP, uint16(src)))
	return answers, nil
}

// forget has conntrack forget a connection that nobody has answered. It would remember for two
// minutes that no rules were met: a hundred of them a second fill its table, and a later
// connection of the same port goes where the first one went.
func (f *netfilter) forget(from, to netip.AddrPort) {
	_, _, _ = f.send(unix.NFNL_SUBSYS_CTNETLINK, ctDelete, family(to.Addr()), []*nl.RtAttr{tuple(from, to)}) // or else it is forgotten later
}

// tuple returns the tuple by which conntrack knows a TCP connection of this machine.
func tuple(from, to netip.AddrPort) *nl.RtAttr {
	src, dst := ends(to.Addr())
	number := func(kind int, n uint16) *nl.RtAttr { return rawAttr(kind, binary.BigEndian.AppendUint16(nil, n)) }
	return nested(ctTupleOrig,
		nested(ctTupleIP, rawAttr(src, from.Addr().AsSlice()), rawAttr(dst, to.Addr().AsSlice())),
		nested(ctTupleProto, rawAttr(ctProtoNumber, []byte{unix.IPPROTO_TCP}), number(ctProtoSrcPort, from.Port()), number(ctProtoDstPort, to.Port())),
	)
}

func ends(a netip.Addr) (src, dst int) {
	if a.Is6() {
		return ctIPv6Src, ctIPv6Dst
	}
	return ctIPv4Src, ctIPv4Dst
}

func rawAttr(kind int, value []byte) *nl.RtAttr { return nl.NewRtAttr(kind, value) }
