package inventory

import (
	"net/netip"
	"slices"

	"go4.org/netipx"
)

// blocks is a set of prefixes that are taken. Its zero value is empty.
type blocks struct {
	all []netip.Prefix
}

func (b *blocks) take(p netip.Prefix) { b.all = append(b.all, p) }

// overlap reports whether a prefix shares an address with any of them.
func (b *blocks) overlap(p netip.Prefix) bool {
	return slices.ContainsFunc(b.all, p.Overlaps)
}

// in is the supply of free blocks of a length within a larger one.
func (b *blocks) in(whole netip.Prefix, bits int) *supply {
	free := &supply{whole: whole, bits: bits, taken: map[netip.Prefix]bool{}}
	if bits < whole.Bits() || bits > whole.Addr().BitLen() {
		return free
	}
	free.at = netip.PrefixFrom(whole.Addr(), bits)
	for _, block := range b.all {
		switch {
		case !block.Overlaps(whole):
		case block.Bits() >= bits:
			p, _ := block.Addr().Prefix(bits)
			free.taken[p] = true
		default:
			free.larger = append(free.larger, block)
		}
	}
	return free
}

// supply yields free blocks in ascending order. What it yields is taken.
type supply struct {
	whole  netip.Prefix
	bits   int
	at     netip.Prefix // the first that may be free; invalid: there is none left
	taken  map[netip.Prefix]bool
	larger []netip.Prefix // taken blocks that are larger than what is wanted
}

// next returns the first free block.
func (s *supply) next() (netip.Prefix, bool) {
	for s.at.IsValid() {
		prefix := s.at
		if l, ok := s.within(prefix); ok {
			s.skip(l)
			continue
		}
		s.skip(prefix)
		if !s.taken[prefix] {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}

// within returns the larger block that a prefix is part of.
func (s *supply) within(p netip.Prefix) (netip.Prefix, bool) {
	return Find(s.larger, p.Overlaps)
}

// skip moves on to the block after a prefix.
func (s *supply) skip(p netip.Prefix) {
	after := netipx.PrefixLastIP(p).Next()
	if !after.IsValid() || !s.whole.Contains(after) {
		s.at = netip.Prefix{}
		return
	}
	s.at = netip.PrefixFrom(after, s.bits)
}

// FreeBlock is the first block of so many bits in a network that shares no address with any of those taken.
func FreeBlock(network netip.Prefix, bits int, taken []netip.Prefix) (netip.Prefix, bool) {
	return (&blocks{all: taken}).in(network, bits).next()
}
