package kernel

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/routing"
)

// mark holds the protocol and the metric by which our routes are distinguished from all others.
type mark struct {
	protocol uint8
	metric   uint32
}

// lastResort is added to the metric of a route that is to yield to all others.
const lastResort = 1_000_000

// ForwardedTable holds the routes for packets that other machines and pods sent.
// A rule leads there; see [Table].
const ForwardedTable = 114

func (m mark) metricOf(k routing.Kind) uint32 {
	if k == routing.Unicast {
		return m.metric
	}
	return m.metric + lastResort
}

func tableOf(k routing.Kind) uint8 {
	if k == routing.UnreachableForwarded {
		return ForwardedTable
	}
	return unix.RT_TABLE_MAIN
}

// batch is a run of messages for one system call.
type batch struct {
	buf   []byte
	start int // of the message that is being written
	first uint32
	n     int
}

func (b *batch) begin(kind uint16, flags uint16) {
	b.start = len(b.buf)
	b.buf = append(b.buf, make([]byte, unix.SizeofNlMsghdr)...)
	h := b.buf[b.start:]
	binary.NativeEndian.PutUint16(h[4:], kind)
	binary.NativeEndian.PutUint16(h[6:], flags|unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(h[8:], b.first+uint32(b.n))
	b.n++
}

func (b *batch) end() {
	binary.NativeEndian.PutUint32(b.buf[b.start:], uint32(len(b.buf)-b.start))
}

// acknowledge asks the kernel to answer the last message even when it succeeds.
func (b *batch) acknowledge() {
	flags := b.buf[b.start+6:]
	binary.NativeEndian.PutUint16(flags, binary.NativeEndian.Uint16(flags)|unix.NLM_F_ACK)
}

// attribute opens an attribute and returns where it starts; close it with sized
// once its value is written.
func (b *batch) attribute(kind uint16) int {
	at := len(b.buf)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, 0)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, kind)
	return at
}

func (b *batch) sized(at int) {
	binary.NativeEndian.PutUint16(b.buf[at:], uint16(len(b.buf)-at))
	for len(b.buf)%4 != 0 {
		b.buf = append(b.buf, 0)
	}
}

func (b *batch) number(kind uint16, v uint32) {
	at := b.attribute(kind)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, v)
	b.sized(at)
}

func (b *batch) address(kind uint16, a netip.Addr) {
	at := b.attribute(kind)
	b.buf = appendAddr(b.buf, a)
	b.sized(at)
}

// appendAddr is a.AppendBinary without the zone, which the kernel has no place for.
func appendAddr(data []byte, a netip.Addr) []byte {
	if a.Is4() {
		v := a.As4()
		return append(data, v[:]...)
	}
	v := a.As16()
	return append(data, v[:]...)
}

func family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// put writes a message that adds or replaces (flags) a route.
func (b *batch) put(mark mark, route routing.Route, flags uint16, tunnel uint32) {
	b.begin(unix.RTM_NEWROUTE, flags|unix.NLM_F_CREATE)
	kind := uint8(unix.RTN_UNICAST)
	if route.Kind != routing.Unicast {
		kind = unix.RTN_UNREACHABLE
	}
	hopFlags := uint8(0)
	if route.Tunnel {
		hopFlags = unix.RTNH_F_ONLINK
	}
	b.route(route.Dst, tableOf(route.Kind), mark.protocol, unix.RT_SCOPE_UNIVERSE, kind, uint32(hopFlags))
	b.number(unix.RTA_PRIORITY, mark.metricOf(route.Kind))
	switch hops := route.Via.All(); {
	case len(hops) == 1:
		b.gateway(route.Dst, hops[0])
		if route.Tunnel {
			b.number(unix.RTA_OIF, tunnel)
		} else if zone := hops[0].Zone(); zone != "" {
			b.number(unix.RTA_OIF, deviceIndex(zone))
		}
	case len(hops) > 1:
		b.multipath(route.Dst, hops)
	}
	b.end()
}

// gateway writes a next hop. One of the other family has an attribute of its own, for IPv4
// routes alone (RTA_VIA, Linux 5.2).
func (b *batch) gateway(dst netip.Prefix, hop netip.Addr) {
	if family(dst.Addr()) == family(hop) {
		b.address(unix.RTA_GATEWAY, hop)
		return
	}
	at := b.attribute(unix.RTA_VIA)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, uint16(family(hop)))
	b.buf = appendAddr(b.buf, hop)
	b.sized(at)
}

func (b *batch) multipath(dst netip.Prefix, hops []netip.Addr) {
	at := b.attribute(unix.RTA_MULTIPATH)
	for _, hop := range hops {
		start := len(b.buf)
		b.buf = append(b.buf, make([]byte, unix.SizeofRtNexthop)...)
		b.gateway(dst, hop)
		binary.NativeEndian.PutUint16(b.buf[start:], uint16(len(b.buf)-start))
		if hop.Zone() != "" {
			binary.NativeEndian.PutUint32(b.buf[start+4:], deviceIndex(hop.Zone()))
		}
	}
	b.sized(at)
}

// remove writes a message that deletes a route of ours. The metric and protocol
// are part of it: the kernel deletes nothing that differs in either.
func (b *batch) remove(m mark, r routing.Route) {
	b.begin(unix.RTM_DELROUTE, 0)
	b.route(r.Dst, tableOf(r.Kind), m.protocol, unix.RT_SCOPE_NOWHERE, unix.RTN_UNSPEC, 0)
	b.number(unix.RTA_PRIORITY, m.metricOf(r.Kind))
	b.end()
}

func (b *batch) route(dst netip.Prefix, table, protocol, scope, kind uint8, flags uint32) {
	b.buf = append(b.buf, family(dst.Addr()), uint8(dst.Bits()), 0, 0, table, protocol, scope, kind)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, flags)
	b.address(unix.RTA_DST, dst.Addr())
}

// list writes the request for all routes of one family, table and protocol. With
// NETLINK_GET_STRICT_CHK the kernel leaves the others out itself.
func (b *batch) list(family, table, protocol uint8) {
	b.begin(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	b.buf = append(b.buf, family, 0, 0, 0, table, protocol, 0, 0, 0, 0, 0, 0)
	b.end()
}

// reader reads routes as they stand on one machine.
type reader struct {
	mark
	tunnel uint32 // index of the tunnel device; 0: none
	links  *links
}

// decode reads a route message. It reports false for what does not bear our mark. A
// route that does, but is none that we would write, has no next hop: it differs from
// all that are wanted.
func (m reader) decode(body []byte) (route routing.Route, ours bool) {
	if len(body) < unix.SizeofRtMsg || body[5] != m.protocol || body[3] != 0 {
		return route, false
	}
	flags := binary.NativeEndian.Uint32(body[8:])
	if flags&unix.RTM_F_CLONED != 0 {
		return route, false
	}
	raw := rawRoute{table: uint32(body[4]), addr: unspecified(body[0])}
	raw.read(body[unix.SizeofRtMsg:])
	route.Dst = netip.PrefixFrom(raw.addr, int(body[1]))
	if route.Kind, ours = m.kindOf(raw); !ours {
		return route, false
	}
	route.Tunnel = m.tunnel != 0 && raw.devices[0] == m.tunnel
	unreachable := body[7] == unix.RTN_UNREACHABLE
	if unreachable != (route.Kind != routing.Unicast) || raw.hops > len(raw.via) || !route.Tunnel && !m.links.right(&raw) {
		route.Tunnel = route.Kind != routing.Unicast
		return route, true
	}
	if !route.Tunnel {
		m.links.zones(&raw)
	}
	route.Via = routing.Via(raw.via[:raw.hops]...)
	return route, true
}

// kindOf returns the kind of a route by its table and metric.
func (m mark) kindOf(raw rawRoute) (routing.Kind, bool) {
	for _, k := range []routing.Kind{routing.Unicast, routing.Unreachable, routing.UnreachableForwarded} {
		if raw.table == uint32(tableOf(k)) && raw.metric == m.metricOf(k) {
			return k, true
		}
	}
	return 0, false
}

// rawRoute holds the attributes of a route message.
type rawRoute struct {
	table, metric uint32
	addr          netip.Addr
	via           [routing.MaxNextHops]netip.Addr
	devices       [routing.MaxNextHops]uint32 // of each next hop
	hops          int                         // in via; there may be more than fit
}

func (r *rawRoute) read(attrs []byte) {
	for kind, value := range attributes(attrs) {
		switch kind {
		case unix.RTA_DST:
			r.addr, _ = netip.AddrFromSlice(value)
		case unix.RTA_TABLE:
			r.table = binary.NativeEndian.Uint32(value)
		case unix.RTA_PRIORITY:
			r.metric = binary.NativeEndian.Uint32(value)
		case unix.RTA_OIF:
			r.devices[0] = binary.NativeEndian.Uint32(value)
		case unix.RTA_GATEWAY:
			r.hop(value, r.devices[0])
		case unix.RTA_VIA:
			r.hop(viaOf(value), r.devices[0])
		case unix.RTA_MULTIPATH:
			r.nextHops(value)
		}
	}
}

func (r *rawRoute) hop(value []byte, device uint32) {
	if a, ok := netip.AddrFromSlice(value); ok {
		if r.hops < len(r.via) {
			r.via[r.hops], r.devices[r.hops] = a, device
		}
		r.hops++
	}
}

func (r *rawRoute) nextHops(data []byte) {
	for len(data) >= unix.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(data))
		if size < unix.SizeofRtNexthop || size > len(data) {
			return
		}
		device := binary.NativeEndian.Uint32(data[4:])
		for kind, value := range attributes(data[unix.SizeofRtNexthop:size]) {
			switch kind {
			case unix.RTA_GATEWAY:
				r.hop(value, device)
			case unix.RTA_VIA:
				r.hop(viaOf(value), device)
			}
		}
		data = data[min(len(data), align(size)):]
	}
}

// viaOf is the address in a next hop of the other family, after two bytes that say which.
func viaOf(value []byte) []byte { return value[min(2, len(value)):] }

func unspecified(family uint8) netip.Addr {
	if family == unix.AF_INET {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// attributes walks the attributes of a message by kind and value.
func attributes(data []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(data) >= unix.SizeofRtAttr {
			size := int(binary.NativeEndian.Uint16(data))
			if size < unix.SizeofRtAttr || size > len(data) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(data[2:])&^uint16(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), data[unix.SizeofRtAttr:size]) {
				return
			}
			data = data[min(len(data), align(size)):]
		}
	}
}

func header(data []byte) unix.NlMsghdr {
	return unix.NlMsghdr{
		Len:   binary.NativeEndian.Uint32(data),
		Type:  binary.NativeEndian.Uint16(data[4:]),
		Flags: binary.NativeEndian.Uint16(data[6:]),
		Seq:   binary.NativeEndian.Uint32(data[8:]),
		Pid:   binary.NativeEndian.Uint32(data[12:]),
	}
}

// align rounds up to the four bytes that netlink aligns messages and attributes to.
func align(n int) int { return (n + 3) &^ 3 }
