package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/test/lab/netns"
)

// paths are the machines that each connection from outside to a web server has passed on its way in, as their own
// kernels noted it: no clock and no program is asked.
type paths struct{ machines map[string]string } // namespaces, by machine

// passage is which machines a connection has passed, sorted, and which of them had a packet of it that still went to the
// VIP where kube-proxy should have given it the address of a pod (dstnat, the priority of its rules).
type passage struct{ machines, untranslated []string }

const pathsTable = "inet plinth_lab_paths"

// notePaths begins to note them, by the VIP and the client's port.
func notePaths(ctx context.Context, machines map[string]string) (*paths, error) {
	rules := fmt.Sprintf(`table %[1]s
delete table %[1]s
table %[1]s {
	set passed4 { type ipv4_addr . inet_service; size 65535; flags dynamic; }
	set passed6 { type ipv6_addr . inet_service; size 65535; flags dynamic; }
	set untranslated4 { type ipv4_addr . inet_service; size 65535; flags dynamic; }
	set untranslated6 { type ipv6_addr . inet_service; size 65535; flags dynamic; }
	chain in {
		type filter hook prerouting priority -400;
		ip saddr %[2]s tcp dport %[4]d add @passed4 { ip daddr . tcp sport }
		ip6 saddr %[3]s tcp dport %[4]d add @passed6 { ip6 daddr . tcp sport }
	}
	chain translated {
		type filter hook prerouting priority -90;
		ip saddr %[2]s ip daddr . tcp sport @passed4 tcp dport %[4]d add @untranslated4 { ip daddr . tcp sport }
		ip6 saddr %[3]s ip6 daddr . tcp sport @passed6 tcp dport %[4]d add @untranslated6 { ip6 daddr . tcp sport }
	}
}`, pathsTable, ClientAddress.V4, ClientAddress.V6, WebPort)
	for _, space := range machines {
		if _, err := netns.Output(ctx, space, "nft", rules); err != nil {
			return nil, err
		}
	}
	return &paths{machines}, nil
}

// flow is a connection as machines note it.
type flow struct {
	vip  netip.Addr
	port int // of the client
}

// passed are the ways of all connections.
func (p *paths) passed(ctx context.Context) (map[flow]passage, error) {
	all := map[flow]passage{}
	for _, name := range slices.Sorted(maps.Keys(p.machines)) {
		for _, set := range []string{"passed4", "passed6", "untranslated4", "untranslated6"} {
			text, err := netns.Output(ctx, p.machines[name], "nft", "-j", "list set "+pathsTable+" "+set)
			if err != nil {
				return nil, err
			}
			flows, err := flowsIn(text)
			if err != nil {
				return nil, fmt.Errorf("what passed %s: %w", name, err)
			}
			for _, f := range flows {
				way := all[f]
				if strings.HasPrefix(set, "passed") {
					way.machines = append(way.machines, name)
				} else {
					way.untranslated = append(way.untranslated, name)
				}
				all[f] = way
			}
		}
	}
	return all, nil
}

// flowsIn reads a set of nft's.
func flowsIn(text string) (flows []flow, err error) {
	var said struct {
		Nftables []struct {
			Set struct {
				Elem []struct {
					Concat [2]any
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return nil, err
	}
	for _, n := range said.Nftables {
		for _, e := range n.Set.Elem {
			address, _ := e.Concat[0].(string)
			port, ok := e.Concat[1].(float64)
			vip, err := netip.ParseAddr(address)
			if err != nil || !ok {
				return nil, fmt.Errorf("nft says %v, want an address and a port", e.Concat)
			}
			flows = append(flows, flow{vip, int(port)})
		}
	}
	return flows, nil
}

// remove has the kernels note nothing more.
func (p *paths) remove(ctx context.Context) error {
	var failed []error
	for _, space := range p.machines {
		_, err := netns.Output(ctx, space, "nft", "delete table "+pathsTable)
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
