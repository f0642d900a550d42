package onlink

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Link is a subnet and this machine's address in it, which tells the interface.
type Link struct {
	Subnet netip.Prefix
	Self   netip.Addr
}

// Config is all that a machine does on one link. A link has one family; a subnet has one
// Config. All addresses are of the subnet.
type Config struct {
	Link
	Machines      []netip.Addr  // of the other machines, whose MACs are no stranger's
	AnnounceEvery time.Duration // how often claims are announced that are not new; 0: never
	Claims        []netip.Addr  // to answer for
	Watched       []netip.Addr  // VIPs that others are to claim: nothing is answered for them
}

// validate returns the valid part of a Config, and an error that names the rest.
func (c Config) validate() (Config, error) {
	if !c.Subnet.IsValid() || c.Subnet != c.Subnet.Masked() {
		return Config{}, fmt.Errorf("link %v: the subnet is not one", c.Subnet)
	}
	if !c.Subnet.Contains(c.Self) {
		return Config{}, fmt.Errorf("link %v: this machine's address %v is not in it", c.Subnet, c.Self)
	}
	var refused []error
	keep := func(kind string, addrs []netip.Addr, but func(netip.Addr) bool) []netip.Addr {
		var kept []netip.Addr
		for _, a := range addrs {
			if !c.Subnet.Contains(a) || a == c.Self || but(a) {
				refused = append(refused, fmt.Errorf("link %v: %v cannot be %s", c.Subnet, a, kind))
				continue
			}
			kept = append(kept, a)
		}
		slices.SortFunc(kept, netip.Addr.Compare)
		return slices.Compact(kept)
	}
	nothing := func(netip.Addr) bool { return false }
	c.Machines = keep("another machine", c.Machines, nothing)
	c.Claims = keep("claimed", c.Claims, func(a netip.Addr) bool { return slices.Contains(c.Machines, a) })
	c.Watched = keep("watched", c.Watched, func(a netip.Addr) bool { return slices.Contains(c.Claims, a) || slices.Contains(c.Machines, a) })
	return c, errors.Join(refused...)
}

// validConfigs are the links by their subnet. Of two with one subnet the first counts.
func validConfigs(all []Config) (map[netip.Prefix]Config, error) {
	valid := map[netip.Prefix]Config{}
	var refused []error
	for _, c := range all {
		config, err := c.validate()
		refused = append(refused, err)
		if _, twice := valid[config.Subnet]; twice {
			refused = append(refused, fmt.Errorf("link %v: the subnet is given twice", config.Subnet))
			continue
		}
		if config.Subnet.IsValid() {
			valid[config.Subnet] = config
		}
	}
	return valid, errors.Join(refused...)
}
