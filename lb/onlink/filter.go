package onlink

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// audible holds the addresses of which a link has to hear. Slices are sorted and hold addresses of one family.
type audible struct {
	asked    []netip.Addr // in requests for one of these: our claims
	asserted []netip.Addr // in frames whose sender says that it has one of these
	answered []netip.Addr // in answers for one of these
}

const (
	pass, drop = 0x40000, 0 // what a program returns: how many bytes the socket gets
	// maxRanges bounds each list of a program, whose length the kernel limits to 4096
	// instructions. Beyond it the ranges that are closest are joined: parse is exact.
	maxRanges = 192
	maxGroups = 4
)

// Where the fields are in a frame, from the Ethernet header on.
const (
	atARPTypes  = 14
	atARPSizes  = 18
	atARPOp     = 20
	atARPSender = 28
	atARPTarget = 38
	atNextHop   = 20 // next header and hop limit
	atSource    = 22
	atType      = 54
	atTarget    = 62
	packetType  = 0xffff_f004 // not in the frame: SKF_AD_OFF + SKF_AD_PKTTYPE of linux/filter.h
)

// program is a filter in classic BPF that is being written.
type program []unix.SockFilter

func (p *program) add(code uint16, k uint32, jt, jf uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (p *program) end(bytes uint32) { p.add(unix.BPF_RET|unix.BPF_K, bytes, 0, 0) }

// load takes 1, 2 or 4 bytes of the frame into the accumulator.
func (p *program) load(size uint16, at uint32) { p.add(unix.BPF_LD|unix.BPF_ABS|size, at, 0, 0) }

// unless drops the frame if the accumulator has another value.
func (p *program) unless(value uint32) {
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, value, 1, 0)
	p.end(drop)
}

// jump begins a jump forward over what is written until land is called with its result.
func (p *program) jump() int {
	p.add(unix.BPF_JMP|unix.BPF_JA, 0, 0, 0)
	return len(*p) - 1
}

func (p *program) land(from int) { (*p)[from].K = uint32(len(*p) - from - 1) }

// filter is the program that lets through what the link has to hear, and of frames for other
// hosts, of other VLANs and those sent by this machine nothing.
func filter(audible audible, ipv4 bool) program {
	var code program
	code.load(unix.BPF_W, packetType)
	code.add(unix.BPF_JMP|unix.BPF_JGT|unix.BPF_K, unix.PACKET_MULTICAST, 0, 1)
	code.end(drop)
	if ipv4 {
		code.filterARP(audible)
	} else {
		code.filterND(audible)
	}
	code.end(drop)
	return code
}

func (p *program) filterARP(audible audible) {
	p.load(unix.BPF_W, atARPTypes)
	p.unless(arpEthernetIPv4 >> 16)
	p.load(unix.BPF_H, atARPSizes)
	p.unless(arpEthernetIPv4 & 0xffff)
	p.load(unix.BPF_W, atARPSender)
	p.passRanges(rangesOf(audible.asserted, maxRanges))
	p.load(unix.BPF_H, atARPOp)
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, arpRequest, 1, 0)
	toReply := p.jump()
	p.load(unix.BPF_W, atARPTarget)
	p.passRanges(rangesOf(audible.asked, maxRanges))
	p.end(drop)
	p.land(toReply)
	p.unless(arpReply)
	p.load(unix.BPF_W, atARPSender)
	p.passRanges(rangesOf(audible.answered, maxRanges))
}

func (p *program) filterND(audible audible) {
	p.load(unix.BPF_H, atNextHop)
	p.unless(icmpv6<<8 | ndHopLimit)
	p.load(unix.BPF_B, atType)
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, typeNS, 1, 0)
	toAdvertisement := p.jump()
	p.passAddrs(atTarget, audible.asked)
	p.passAddrs(atSource, audible.asserted)
	p.end(drop)
	p.land(toAdvertisement)
	p.unless(typeNA)
	p.passAddrs(atTarget, slices.SortedFunc(slices.Values(slices.Concat(audible.asserted, audible.answered)), netip.Addr.Compare))
}

// passAddrs lets the frame through if it has one of the IPv6 addresses, which mostly have
// their first 96 bits in common. Where they do not, the last 32 alone decide.
func (p *program) passAddrs(at uint32, addrs []netip.Addr) {
	groups := slices.Collect(chunksBy(addrs, func(a netip.Addr) [12]byte { b := a.As16(); return [12]byte(b[:12]) }))
	if len(groups) > maxGroups {
		p.load(unix.BPF_W, at+12)
		p.passRanges(rangesOf(addrs, maxRanges))
		return
	}
	for _, group := range groups {
		var others []int
		prefix := group[0].As16()
		for word := uint32(0); word < 12; word += 4 {
			p.load(unix.BPF_W, at+word)
			p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, binary.BigEndian.Uint32(prefix[word:]), 1, 0)
			others = append(others, p.jump())
		}
		p.load(unix.BPF_W, at+12)
		p.passRanges(rangesOf(group, maxRanges/len(groups)))
		for _, from := range others {
			p.land(from)
		}
	}
}

// passRanges lets the frame through if the accumulator is in one of the ranges, which are
// sorted.
func (p *program) passRanges(ranges []span) {
	var ends []int
	for _, r := range ranges {
		p.add(unix.BPF_JMP|unix.BPF_JGT|unix.BPF_K, r.last, 3, 0) // to the next range
		p.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, r.first, 0, 1)
		p.end(pass)
		ends = append(ends, p.jump())
	}
	for _, from := range ends {
		p.land(from)
	}
}

// span is a range of the last 32 bits of addresses, both ends included.
type span struct{ first, last uint32 }

// rangesOf covers the last 32 bits of the addresses with at most limit ranges, exactly where
// that is possible. What is left out are the widest gaps.
func rangesOf(addrs []netip.Addr, limit int) []span {
	words := make([]uint32, 0, len(addrs))
	for _, a := range addrs {
		b := a.As16()
		words = append(words, binary.BigEndian.Uint32(b[12:]))
	}
	slices.Sort(words)
	var ranges []span
	for _, w := range slices.Compact(words) {
		if n := len(ranges); n > 0 && ranges[n-1].last+1 == w {
			ranges[n-1].last = w
			continue
		}
		ranges = append(ranges, span{w, w})
	}
	return joinClosest(ranges, limit)
}

func joinClosest(ranges []span, limit int) []span {
	if len(ranges) <= limit {
		return ranges
	}
	gaps := make([]int, 0, len(ranges)-1) // by the index of the range after the gap
	for i := 1; i < len(ranges); i++ {
		gaps = append(gaps, i)
	}
	slices.SortFunc(gaps, func(a, b int) int {
		return cmp.Compare(ranges[b].first-ranges[b-1].last, ranges[a].first-ranges[a-1].last)
	})
	kept := slices.Sorted(slices.Values(gaps[:limit-1]))
	joined := make([]span, 0, limit)
	begin := 0
	for _, i := range append(kept, len(ranges)) {
		joined = append(joined, span{ranges[begin].first, ranges[i-1].last})
		begin = i
	}
	return joined
}

// chunksBy splits what is sorted into runs of the same key.
func chunksBy[T any, K comparable](all []T, key func(T) K) func(func([]T) bool) {
	return func(yield func([]T) bool) {
		for len(all) > 0 {
			size := 1
			for size < len(all) && key(all[size]) == key(all[0]) {
				size++
			}
			if !yield(all[:size]) {
				return
			}
			all = all[size:]
		}
	}
}
