package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/wake"
)

// watched are the groups whose events can mean that a route of ours is gone. For
// IPv4 the kernel sends nothing when it drops a route because its link went down.
var watched = []uint32{
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
	unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_LINK,
	unix.RTNLGRP_NEIGH,
}

// pollEvery bounds how long the end of the context goes unnoticed.
const pollEvery = 250 * time.Millisecond

// Watch sends on the channel, and calls nothing, whenever another program or the
// kernel may have changed what bears our mark: then call [Table.Invalidate] and Set.
// Events that say "messages were lost" count too. It ends with the context. An error is
// the kernel's, of opening the sockets or of reading the tables for the first time.
//
// The channel holds one value: events that were not received yet are one event.
func (t *Table) Watch(ctx context.Context) (<-chan struct{}, error) {
	if t.conn == nil {
		if _, err := t.learn(); err != nil {
			return nil, err
		}
	}
	conn, err := dial(watched...)
	if err != nil {
		return nil, err
	}
	if err := conn.patience(pollEvery); err != nil {
		conn.close()
		return nil, err
	}
	doubt := make(chan struct{}, 1)
	go t.watcher().listen(ctx, conn, doubt)
	return doubt, nil
}

func (t *Table) watcher() watcher {
	return watcher{mark: t.mark, port: t.conn.port, wanted: &t.wanted, tunnel: &t.tunnel, entries: &t.entries, mtus: &t.mtus}
}

// watcher distinguishes events that concern us from others.
type watcher struct {
	mark
	port    uint32 // of the socket that we write with
	wanted  *atomic.Pointer[[]routing.Route]
	tunnel  *atomic.Uint32 // index of the device
	entries *atomic.Pointer[entries]
	mtus    *atomic.Pointer[mtus]
}

// listen reads events until the context ends.
func (w watcher) listen(ctx context.Context, c *conn, doubt chan<- struct{}) {
	defer c.close()
	for ctx.Err() == nil {
		relevant := false
		err := c.receive(func(h unix.NlMsghdr, body []byte) error {
			relevant = relevant || h.Pid != w.port && w.concerns(h, body)
			return nil
		})
		if errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			wake.After(ctx, pollEvery) // not to spin should the socket be broken for good
		}
		if relevant || err != nil {
			wake.Up(doubt)
		}
	}
}

// concerns reports whether an event can be about what bears our mark.
func (w watcher) concerns(header unix.NlMsghdr, body []byte) bool {
	switch header.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		// A replacement may be of a route of ours by another program's.
		return len(body) >= unix.SizeofRtMsg && (body[5] == w.protocol || header.Flags&unix.NLM_F_REPLACE != 0 && w.wants(body))
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return len(body) >= unix.SizeofNdMsg && w.tunnelled(header.Type == unix.RTM_NEWNEIGH, body)
	case unix.RTM_NEWLINK:
		return len(body) >= unix.SizeofIfInfomsg && w.linkChanged(body)
	case unix.RTM_DELLINK, unix.RTM_NEWADDR, unix.RTM_DELADDR, unix.RTM_NEWRULE, unix.RTM_DELRULE:
		return true
	}
	return false
}

// wants reports whether the destination of a route message is one that we want a route to.
// A router's daemon replaces routes all day, and each reread costs more the more there are.
func (w watcher) wants(body []byte) bool {
	routes := w.wanted.Load()
	if routes == nil {
		return true
	}
	addr := unspecified(body[0])
	for kind, value := range attributes(body[unix.SizeofRtMsg:]) {
		if kind == unix.RTA_DST {
			addr, _ = netip.AddrFromSlice(value)
		}
	}
	dst := netip.PrefixFrom(addr, int(body[1]))
	// Unicast is the first kind: of the routes to dst none comes before this one.
	i, _ := slices.BinarySearchFunc(*routes, routing.Route{Dst: dst, Kind: routing.Unicast}, routing.Route.Compare)
	return i < len(*routes) && (*routes)[i].Dst == dst
}

// linkChanged reports whether a link went up or down, or whether the MTU of one that the
// tunnel needs is not what it was. Statistics and the like are events as well.
func (w watcher) linkChanged(body []byte) bool {
	if changed := binary.NativeEndian.Uint32(body[12:]); changed&(unix.IFF_UP|unix.IFF_RUNNING|unix.IFF_LOWER_UP) != 0 {
		return true
	}
	known := w.mtus.Load()
	if known == nil {
		return false
	}
	mtu, needed := (*known)[int(binary.NativeEndian.Uint32(body[4:]))]
	if !needed {
		return false
	}
	for kind, value := range attributes(body[unix.SizeofIfInfomsg:]) {
		if kind == unix.IFLA_MTU && len(value) == 4 {
			return int(binary.NativeEndian.Uint32(value)) != mtu
		}
	}
	return false
}

// tunnelled reports whether an event says that an entry of the tunnel is not as it is to
// be. Of forwarding entries the kernel does not say whose doing it was. For multicast it
// makes some of its own.
func (w watcher) tunnelled(isNew bool, body []byte) bool {
	device, state := binary.NativeEndian.Uint32(body[4:]), binary.NativeEndian.Uint16(body[8:])
	if device == 0 || device != w.tunnel.Load() || state == unix.NUD_NOARP {
		return false
	}
	want := w.entries.Load()
	n, ok := readNeighbour(body)
	return want == nil || !ok || (*want)[n] != isNew
}
