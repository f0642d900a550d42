package inventory

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Community is a standard (RFC 1997) or large (RFC 8092) BGP community. It
// compares with ==.
type Community struct {
	Large  bool
	Global uint32 // standard: the upper 16 bits
	Local1 uint32 // standard: the lower 16 bits
	Local2 uint32 // standard: 0
}

// Communities that every router knows.
var (
	GracefulShutdown = wellKnownOf(0)     // RFC 8326
	Blackhole        = wellKnownOf(666)   // RFC 7999
	NoExport         = wellKnownOf(65281) // RFC 1997
	NoAdvertise      = wellKnownOf(65282) // RFC 1997
	NoPeer           = wellKnownOf(65284) // RFC 3765
)

// WellKnownCommunities are the names that stand for a community without being declared.
var WellKnownCommunities = map[string]Community{
	"graceful-shutdown": GracefulShutdown,
	"blackhole":         Blackhole,
	"no-export":         NoExport,
	"no-advertise":      NoAdvertise,
	"no-peer":           NoPeer,
}

// wellKnownOf is a community of the range that RFC 1997 keeps for those that mean the same
// to everybody.
func wellKnownOf(low uint16) Community {
	return Community{Global: 65535, Local1: uint32(low)}
}

// ParseCommunity reads "65010:100", "large:65010:1:7" or a well-known name such
// as "no-export".
func ParseCommunity(text string) (Community, error) {
	if c, ok := WellKnownCommunities[text]; ok {
		return c, nil
	}
	body, large := strings.CutPrefix(text, "large:")
	parts := strings.Split(body, ":")
	want, size := 2, 16
	if large {
		want, size = 3, 32
	}
	if len(parts) != want {
		return Community{}, fmt.Errorf("%q is not a community", text)
	}
	var numbers [3]uint32
	for i, p := range parts {
		v, ok := ParseDigits(p, size)
		if !ok {
			return Community{}, fmt.Errorf("%q in %q is not a number of %d bits", p, text, size)
		}
		numbers[i] = uint32(v)
	}
	return Community{Large: large, Global: numbers[0], Local1: numbers[1], Local2: numbers[2]}, nil
}

// String prints "65010:100" or "large:65010:1:7".
func (c Community) String() string {
	if c.Large {
		return fmt.Sprintf("large:%d:%d:%d", c.Global, c.Local1, c.Local2)
	}
	return strconv.Itoa(int(c.Global)) + ":" + strconv.Itoa(int(c.Local1))
}

// Uint32 is a standard community as it goes over the wire.
func (c Community) Uint32() uint32 { return c.Global<<16 | c.Local1 }

// Compare sorts standard communities before large ones, then by number.
func (c Community) Compare(other Community) int {
	if c.Large != other.Large {
		if other.Large {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(c.Global, other.Global), cmp.Compare(c.Local1, other.Local1), cmp.Compare(c.Local2, other.Local2))
}

// Communities is a set of communities in its one canonical form: sorted, with
// one blank between two. It compares with ==, and its zero value is empty.
type Communities string

// CommunitiesOf is the set of all that are given.
func CommunitiesOf(all ...Community) Communities {
	all = slices.Clone(all)
	slices.SortFunc(all, Community.Compare)
	return Communities(strings.Join(Strings(slices.Compact(all)), " "))
}

// All yields every community, sorted.
func (cs Communities) All() iter.Seq[Community] {
	return func(yield func(Community) bool) {
		for f := range strings.FieldsSeq(string(cs)) {
			c, err := ParseCommunity(f)
			if err == nil && !yield(c) {
				return
			}
		}
	}
}

// With is the set with c in it.
func (cs Communities) With(c Community) Communities {
	return CommunitiesOf(append(slices.Collect(cs.All()), c)...)
}

// Has reports whether c is in the set.
func (cs Communities) Has(c Community) bool {
	return slices.Contains(slices.Collect(cs.All()), c)
}

// String prints the set as router operators write it, with one blank between two.
func (cs Communities) String() string { return string(cs) }
