package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
)

// Setting is a kernel setting that keeps packets from pods, or has them take one way of
// several, as it is.
type Setting struct {
	Name  string // as sysctl has it, with slashes: a link's name may have dots
	Value string
	Want  string
	Why   string
}

func (s Setting) String() string {
	return fmt.Sprintf("%s is %s and should be %s: %s", s.Key(), s.Value, s.Want, s.Why)
}

// Key is the name as people write it and sysctl takes it: with dots, or, where the link's name
// has one, with slashes.
func (s Setting) Key() string {
	if strings.Contains(s.Name, ".") {
		return s.Name
	}
	return strings.ReplaceAll(s.Name, "/", ".")
}

const (
	whyForward = "packets for pods and VIPs are not passed on"
	whyFilter  = "what comes in on another link than replies would take is dropped"
	whyRA      = "with forwarding on, router advertisements are ignored, and the default route runs out"
	whyHash    = "all connections between two addresses take the same router"
)

// BadSettings returns the settings that a machine with these addresses and these routes of
// ours should not have, in the order in which to change them. They are those of the network namespace it is called
// in. An error of the kernel's or of reading /proc/sys leaves the list incomplete.
func BadSettings(addrs []netip.Addr, routes []routing.Route) ([]Setting, error) {
	devices, err := devicesOf(addrs)
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		for _, hop := range r.Via.All() {
			if hop.Zone() != "" {
				devices = append(devices, hop.Zone())
			}
		}
	}
	devices = inventory.SortedOnce(devices)
	check := checker{}
	if slices.ContainsFunc(addrs, netip.Addr.Is4) {
		check.ipv4(devices, routes)
	}
	if slices.ContainsFunc(addrs, netip.Addr.Is6) {
		check.ipv6(devices)
	}
	slices.SortFunc(check.found, order)
	return check.found, check.err
}

// order compares settings by the order in which they are to be changed: by name, but first those of router
// advertisements. A kernel that begins to forward forgets at once the default routes of links
// whose accept_ra is not 2 (rt6_purge_dflt_routers of Linux), until the next advertisement.
func order(setting, other Setting) int {
	rank := func(s Setting) int {
		if s.Why == whyRA {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(setting), rank(other)), strings.Compare(setting.Name, other.Name))
}

// ipv4 checks the links, and the default of those that are yet to come: of pods, or the
// tunnel. Turning ip_forward on turns it on for all of them.
func (c *checker) ipv4(devices []string, routes []routing.Route) {
	c.not("net/ipv4/ip_forward", "0", "1", whyForward)
	c.not("net/ipv4/conf/all/rp_filter", "1", "2", whyFilter)
	all := c.value("net/ipv4/conf/all/rp_filter")
	for _, d := range append([]string{"default"}, devices...) {
		if c.value("net/ipv4/ip_forward") == "1" {
			c.not("net/ipv4/conf/"+d+"/forwarding", "0", "1", whyForward)
		}
		if d != "default" && all != "2" {
			c.not("net/ipv4/conf/"+d+"/rp_filter", "1", "2", whyFilter) // the larger one of the two holds
		}
	}
	if slices.ContainsFunc(routes, func(r routing.Route) bool { return r.Dst.Addr().Is4() && len(r.Via.All()) > 1 }) {
		c.not("net/ipv4/fib_multipath_hash_policy", "0", "1", whyHash) // IPv6 counts the flow label by default
	}
}

// ipv6 checks the links that a router advertisement gave a default route over, or an address that
// runs out as well. Others are not to take what is advertised there. Where the kernel forwards
// already and knows no default route, one that was learned may be forgotten: of the machine's
// links each may be the one. Of one link alone the kernel does not ask whether it forwards.
func (c *checker) ipv6(devices []string) {
	c.not("net/ipv6/conf/all/forwarding", "0", "1", whyForward)
	advertised, err := advertisedOver()
	configured, err2 := autoconfigured()
	c.err = errors.Join(c.err, err, err2)
	links := append(advertised, configured...)
	if c.value("net/ipv6/conf/all/forwarding") == "1" {
		has, err := hasDefaultRoute6()
		if c.err = errors.Join(c.err, err); err == nil && !has {
			links = append(links, devices...)
		}
	}
	for _, d := range inventory.SortedOnce(links) {
		c.not("net/ipv6/conf/"+d+"/accept_ra", "1", "2", whyRA)
	}
}

// hasDefaultRoute6 reports whether the table main has a default route of IPv6. Where the table changed
// while it was read, one may have been missed, and is taken to be there: the next look sees.
func hasDefaultRoute6() (bool, error) {
	all, err := netlink.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return true, nil
	}
	return slices.ContainsFunc(all, func(r netlink.Route) bool { return r.Dst == nil || isDefault(r) }), err
}

// autoconfigured are the names of the links with an address of IPv6 that has a lifetime (RFC 4862, section 5.5.3).
func autoconfigured() (names []string, err error) {
	all, err := netlink.AddrList(nil, netlink.FAMILY_V6)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // the next look sees what was missed
		return nil, err
	}
	for _, a := range all {
		if a.Flags&unix.IFA_F_PERMANENT != 0 || a.IP.IsLinkLocalUnicast() {
			continue
		}
		if link, err := netlink.LinkByIndex(a.LinkIndex); err == nil { // else it went away meanwhile, as a pod's does
			names = append(names, link.Attrs().Name)
		}
	}
	return names, nil
}

// advertisedOver are the names of the links over which router advertisements gave a default
// route.
func advertisedOver() (names []string, err error) {
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	defer conn.close()
	b := batch{first: conn.nextSeq(1)}
	b.list(unix.AF_INET6, unix.RT_TABLE_MAIN, unix.RTPROT_RA)
	err = conn.dump(b.buf, b.first, func(h unix.NlMsghdr, body []byte) {
		if h.Type != unix.RTM_NEWROUTE || len(body) < unix.SizeofRtMsg || body[0] != unix.AF_INET6 || body[1] != 0 || body[5] != unix.RTPROT_RA {
			return
		}
		var r rawRoute
		r.read(body[unix.SizeofRtMsg:])
		for _, device := range r.devices[:max(1, min(r.hops, len(r.devices)))] {
			if link, err := netlink.LinkByIndex(int(device)); err == nil {
				names = append(names, link.Attrs().Name)
			}
		}
	})
	if errors.Is(err, errInterrupted) {
		err = nil // the next look sees what was missed
	}
	return names, err
}

// FixSettings sets what BadSettings returned to what is wanted, in that order. It tries all of
// them, and returns the errors of writing to /proc/sys.
func FixSettings(all []Setting) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, os.WriteFile(path(s.Name), []byte(s.Want), 0o644))
	}
	return errors.Join(errs...)
}

type checker struct {
	found []Setting
	err   error
}

func (c *checker) value(name string) string {
	b, err := os.ReadFile(path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // without IPv6 there is no such file
		c.err = errors.Join(c.err, err)
	}
	return strings.TrimSpace(string(b))
}

func (c *checker) not(name, bad, want, why string) {
	if v := c.value(name); v == bad {
		c.found = append(c.found, Setting{Name: name, Value: v, Want: want, Why: why})
	}
}

func path(name string) string { return filepath.Join("/proc/sys", name) }

// devicesOf are the names of the links that have the addresses. Over the loopback link,
// where machines of a routed fabric have theirs, nothing comes in.
func devicesOf(addrs []netip.Addr) ([]string, error) {
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, a := range all {
		have, _ := netip.AddrFromSlice(a.IP)
		if !slices.Contains(addrs, have.Unmap()) {
			continue
		}
		link, err := netlink.LinkByIndex(a.LinkIndex)
		if err != nil {
			return nil, err
		}
		if link.Attrs().Flags&net.FlagLoopback == 0 {
			names = append(names, link.Attrs().Name)
		}
	}
	return names, nil
}
