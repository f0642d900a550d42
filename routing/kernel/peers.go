package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/routing"
)

// neighbour is one static entry of the tunnel: of a next hop's hardware address, or,
// with bridge, of the node behind a hardware address. It compares with ==.
type neighbour struct {
	bridge bool
	ip     netip.Addr
	mac    routing.MAC
}

// compare puts the nodes behind hardware addresses before those addresses themselves:
// in that order no packet is sent to an address that leads nowhere yet.
func (n neighbour) compare(other neighbour) int {
	switch {
	case n.bridge && !other.bridge:
		return -1
	case other.bridge && !n.bridge:
		return 1
	}
	return cmp.Or(n.ip.Compare(other.ip), slices.Compare(n.mac[:], other.mac[:]))
}

func (n neighbour) family() uint8 {
	if n.bridge {
		return unix.AF_BRIDGE
	}
	return family(n.ip)
}

// entries are all that the tunnel is to have.
type entries map[neighbour]bool

func entriesOf(peers []routing.Peer) entries {
	all := make(entries, 2*len(peers))
	for _, p := range peers {
		all[neighbour{ip: p.NextHop(), mac: p.MAC}] = true
		all[neighbour{bridge: true, ip: p.Outer, mac: p.MAC}] = true
	}
	return all
}

// setPeers gives the tunnel the entries of exactly these peers, whatever it has.
func (t *Table) setPeers(peers []routing.Peer) error {
	have := entries{}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6, unix.AF_BRIDGE} {
		all, err := netlink.NeighList(int(t.tunnel.Load()), family)
		if err != nil {
			return fmt.Errorf("reading peers: %w", err)
		}
		for _, h := range all {
			if n, ok := neighbourOf(h, family == unix.AF_BRIDGE); ok {
				have[n] = true
			}
		}
	}
	return t.changePeers(have, peers)
}

// changePeers writes what differs: new entries first.
func (t *Table) changePeers(have entries, peers []routing.Peer) error {
	var add, remove []neighbour
	want := entriesOf(peers)
	t.entries.Store(&want) // before the kernel tells of what follows
	for n := range want {
		if !have[n] {
			add = append(add, n)
		}
	}
	added := map[netip.Addr]bool{} // an entry of the same next hop takes the place of the old one
	for _, n := range add {
		added[n.ip] = added[n.ip] || !n.bridge
	}
	for n := range have {
		if !want[n] && (n.bridge || !added[n.ip]) {
			remove = append(remove, n)
		}
	}
	slices.SortFunc(add, neighbour.compare)
	slices.SortFunc(remove, func(a, b neighbour) int { return b.compare(a) })
	return errors.Join(t.neighbours(add, false), t.neighbours(remove, true))
}

// neighbours writes or removes entries.
func (t *Table) neighbours(all []neighbour, remove bool) error {
	var errs []error
	for chunk := range slices.Chunk(all, batchSize) {
		refused, err := t.exchange(len(chunk), func(b *batch, i int) { b.neighbour(chunk[i], t.tunnel.Load(), remove) })
		if err != nil {
			return err
		}
		for i, err := range refused {
			if !remove || !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("peer %v: %w", chunk[i].ip, err))
			}
		}
	}
	return errors.Join(errs...)
}

// neighbour writes a message that adds or replaces an entry, or removes one.
func (b *batch) neighbour(neighbour neighbour, device uint32, remove bool) {
	flags := uint8(0)
	if neighbour.bridge {
		flags = unix.NTF_SELF
	}
	if remove {
		b.begin(unix.RTM_DELNEIGH, 0)
	} else {
		b.begin(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	}
	b.buf = append(b.buf, neighbour.family(), 0, 0, 0)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, device)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, unix.NUD_PERMANENT)
	b.buf = append(b.buf, flags, 0)
	b.address(unix.NDA_DST, neighbour.ip)
	at := b.attribute(unix.NDA_LLADDR)
	b.buf = append(b.buf, neighbour.mac[:]...)
	b.sized(at)
	b.end()
}

// neighbourOf reads an entry; it reports false for those that are none of ours:
// multicast and what the kernel learned.
func neighbourOf(h netlink.Neigh, bridge bool) (neighbour, bool) {
	ip, ok := netip.AddrFromSlice(h.IP)
	if !ok || len(h.HardwareAddr) != len(routing.MAC{}) || h.State&unix.NUD_PERMANENT == 0 || ip.IsMulticast() {
		return neighbour{}, false
	}
	return neighbour{bridge: bridge, ip: ip.Unmap(), mac: routing.MAC(h.HardwareAddr)}, true
}

// readNeighbour reads an entry from an event.
func readNeighbour(body []byte) (neighbour neighbour, ok bool) {
	neighbour.bridge = body[0] == unix.AF_BRIDGE
	for kind, value := range attributes(body[unix.SizeofNdMsg:]) {
		switch kind {
		case unix.NDA_DST:
			neighbour.ip, ok = netip.AddrFromSlice(value)
		case unix.NDA_LLADDR:
			if len(value) == len(neighbour.mac) {
				neighbour.mac = routing.MAC(value)
			}
		}
	}
	return neighbour, ok
}
