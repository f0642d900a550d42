package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// lookUpTimeout is how long all names of Nodes together may take to resolve.
const lookUpTimeout = 2 * time.Second

// lookUp asks this host's resolver for the addresses of a name.
func lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// addresses returns the addresses of Nodes that report none: by flags, and else by the answers of a person. Proposed is what their names resolve to. A Node
// that nobody gives an address has none. Used is what the cluster has already, which no answer may be.
func (s start) addresses(ctx context.Context, asker *asker, nodes []string, used []netip.Prefix, look func(ctx context.Context, name string) ([]netip.Addr, error)) (map[string][]netip.Addr, error) {
	said, err := s.saidAddresses(nodes)
	if err != nil {
		return nil, err
	}
	unsaid := slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return said[name] != nil })
	proposals := proposedAddresses(resolveAll(ctx, unsaid, look), used)
	all := map[string][]netip.Addr{}
	for _, name := range nodes {
		proposed := strings.Join(proposals[name], ",")
		if asker.quiet && proposed != "" {
			fmt.Fprintf(asker.out, "Node %s reports no address: taken is what its name resolves to here, %s\n", name, strings.Join(proposals[name], ", "))
		}
		asker.ask("Address of Node "+name+", which reports none", "--address", strings.Join(said[name], ","), proposed, func(text string) error {
			list, err := commaSeparated(text, netip.ParseAddr)
			if err == nil {
				err = checkAddresses(list, all, used)
			}
			if err == nil {
				all[name] = list
			}
			return err
		})
	}
	return all, asker.err
}

// saidAddresses parses the values of --address for each Node: NODE=ADDRESS, further addresses after commas.
func (s start) saidAddresses(nodes []string) (map[string][]string, error) {
	said := map[string][]string{}
	for _, one := range s.address {
		node := ""
		for part := range strings.SplitSeq(one, ",") {
			name, address, ok := strings.Cut(part, "=")
			if !ok {
				name, address = node, part
			}
			if !slices.Contains(nodes, name) {
				return nil, exit{exitUsage, fmt.Errorf("--address %s: say NODE=ADDRESS for a Node that reports no address; these are: %s", one, cmp.Or(strings.Join(nodes, ", "), "none"))}
			}
			node = name
			said[name] = append(said[name], address)
		}
	}
	return said, nil
}

// checkAddresses refuses addresses that no machine can have, and those that another one, or something else of the cluster, has.
func checkAddresses(list []netip.Addr, others map[string][]netip.Addr, used []netip.Prefix) error {
	for i, addr := range list {
		switch {
		case !addr.IsGlobalUnicast() || addr.Is4In6() || addr.Zone() != "":
			return fmt.Errorf("%v is no address that other machines reach a machine by", addr)
		case slices.Contains(list[:i], addr):
			return fmt.Errorf("%v is there twice", addr)
		case slices.Contains(used, netip.PrefixFrom(addr, addr.BitLen())):
			return fmt.Errorf("%v is in use in the cluster: another Node, or a Service, has it", addr)
		}
		for name, have := range others {
			if slices.Contains(have, addr) {
				return fmt.Errorf("%v is the address of Node %s", addr, name)
			}
		}
	}
	return nil
}

// resolveAll looks all names up at once. A name that does not resolve in time has no address.
func resolveAll(ctx context.Context, names []string, look func(ctx context.Context, name string) ([]netip.Addr, error)) map[string][]netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	found := make([][]netip.Addr, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			if addrs, err := look(ctx, name); err == nil { // else it has none, or nobody could be asked
				found[i] = addrs
			}
		})
	}
	all.Wait()
	by := map[string][]netip.Addr{}
	for i, name := range names {
		by[name] = found[i]
	}
	return by
}

// proposedAddresses are one of each family at most of what names resolve to. On a Node itself its own name has all addresses of that host
// (nss-myhostname), bridges of pods and containers among them, and Debian has it resolve to 127.0.1.1: what is no machine's, or in use in the cluster,
// is not proposed, and the one nearest to what the other Nodes have goes first. Names of one address tell nothing: a wildcard of DNS has it.
func proposedAddresses(found map[string][]netip.Addr, used []netip.Prefix) map[string][]string {
	names := map[netip.Addr]map[string]bool{}
	for name, addrs := range found {
		var usable []netip.Addr
		for _, addr := range addrs {
			addr = addr.Unmap()
			if checkAddresses([]netip.Addr{addr}, nil, nil) == nil && !slices.ContainsFunc(used, func(p netip.Prefix) bool { return p.Contains(addr) }) {
				usable = append(usable, addr)
				if names[addr] == nil {
					names[addr] = map[string]bool{}
				}
				names[addr][name] = true
			}
		}
		found[name] = usable
	}
	proposed := map[string][]string{}
	for name, addrs := range found {
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return len(names[a]) > 1 }) {
			continue
		}
		others := neighbours(found, name, used)
		for _, is4 := range []bool{true, false} {
			if a, ok := nearest(addrs, others, is4); ok {
				proposed[name] = append(proposed[name], a.String())
			}
		}
	}
	return proposed
}

// neighbours are the addresses that a cluster and the other names have.
func neighbours(found map[string][]netip.Addr, name string, used []netip.Prefix) (all []netip.Addr) {
	for _, p := range used {
		if p.IsSingleIP() {
			all = append(all, p.Addr())
		}
	}
	for other, addrs := range found {
		if other != name {
			all = append(all, addrs...)
		}
	}
	return all
}

// nearest is the first address of a family that has the longest prefix in common with any of others; false: there is none of the family.
func nearest(addrs, others []netip.Addr, is4 bool) (best netip.Addr, ok bool) {
	longest := -1
	for _, addr := range addrs {
		if addr.Is4() != is4 {
			continue
		}
		bits := 0
		for _, o := range others {
			if o.Is4() == is4 {
				bits = max(bits, commonBits(addr, o))
			}
		}
		if bits > longest {
			best, longest = addr, bits
		}
	}
	return best, longest >= 0
}

// commonBits is how many bits two addresses of a family begin with alike.
func commonBits(a, b netip.Addr) (n int) {
	for n < a.BitLen() && netip.PrefixFrom(a, n+1).Masked().Contains(b) {
		n++
	}
	return n
}
