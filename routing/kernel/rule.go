package kernel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/routing"
)

// rulePriority puts our rule behind those of people and before the main table.
const rulePriority = 31140

// setRules makes there be a rule for forwarded packets in each family that has
// routes for them, and in no other.
func (t *Table) setRules(want []routing.Route, mayDelete bool) error {
	wanted := forwarded(want)
	if t.synced && wanted == t.ruled {
		return nil
	}
	var errs []error
	for i, family := range t.families {
		if err := t.setRule(int(family), wanted[i], mayDelete); err != nil {
			errs = append(errs, fmt.Errorf("rule for forwarded packets: %w", err))
		}
	}
	t.ruled = wanted
	return errors.Join(errs...)
}

// forwarded reports, for IPv4 and IPv6, whether there are routes for forwarded packets.
func forwarded(routes []routing.Route) (has [2]bool) {
	for i := range routes {
		if routes[i].Kind != routing.UnreachableForwarded {
			continue
		}
		has[familyOf(&routes[i])] = true
	}
	return has
}

// familyOf is the place of a route's family in [Table.families].
func familyOf(r *routing.Route) int {
	if r.Dst.Addr().Is4() {
		return 0
	}
	return 1
}

// learnFamilies finds out which families the kernel does not have, as IPv6 on a
// machine that was started with ipv6.disable=1: it knows no rules of them.
func (t *Table) learnFamilies() error {
	for i, family := range t.families {
		_, err := netlink.RuleList(int(family))
		if t.lacks[i] = errors.Is(err, unix.EAFNOSUPPORT); err != nil && !t.lacks[i] {
			return fmt.Errorf("rules of a family: %w", err)
		}
	}
	return nil
}

// possible returns the desired routes without unreachable ones of families that the kernel
// does not have: no packet of theirs comes that would have to be answered.
func (t *Table) possible(want []routing.Route) []routing.Route {
	needless := func(r routing.Route) bool { return t.lacks[familyOf(&r)] && r.Kind != routing.Unicast }
	if !slices.ContainsFunc(want, needless) {
		return want
	}
	return slices.DeleteFunc(slices.Clone(want), needless)
}

func (t *Table) setRule(family int, wanted, mayDelete bool) error {
	have, err := t.rules(family)
	if errors.Is(err, unix.EAFNOSUPPORT) && !wanted {
		return nil // the kernel does not have the family, and so no rule of it
	}
	if err != nil {
		return err
	}
	ours := t.rule(family)
	held := false
	for i := range have {
		if wanted && !held && have[i].Priority == ours.Priority && have[i].Table == ours.Table && have[i].Invert && have[i].IifName == ours.IifName {
			held = true
			continue
		}
		if mayDelete {
			have[i].Family = family
			err = errors.Join(err, netlink.RuleDel(&have[i]))
		}
	}
	if wanted && !held {
		err = errors.Join(err, netlink.RuleAdd(ours))
	}
	return err
}

// rules returns those that bear our protocol number.
func (t *Table) rules(family int) ([]netlink.Rule, error) {
	all, err := netlink.RuleList(family)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r netlink.Rule) bool { return r.Protocol != t.mark.protocol }), nil
}

func (t *Table) rule(family int) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Priority, r.Table = family, rulePriority, ForwardedTable
	r.Invert, r.IifName, r.Protocol = true, "lo", t.mark.protocol
	return r
}

func deviceIndex(name string) uint32 {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return 0
	}
	return uint32(link.Attrs().Index)
}
