package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// Setting is a kernel setting that keeps packets from pods, as it is.
type Setting struct {
	Name  string // as sysctl has it, with slashes: a link's name may have dots
	Value string
	Want  string
	Why   string
}

func (s Setting) String() string {
	return fmt.Sprintf("%s is %s and should be %s: %s", strings.ReplaceAll(s.Name, "/", "."), s.Value, s.Want, s.Why)
}

const (
	whyForward = "packets for pods and VIPs are not passed on"
	whyFilter  = "what comes in on another link than replies would take is dropped"
	whyRA      = "with forwarding on, router advertisements are ignored, and the default route runs out"
)

// BadSettings returns the settings that a machine with these addresses should not have,
// sorted by name. They are those of the network namespace it is called in. An error of the
// kernel's or of reading /proc/sys leaves the list incomplete.
func BadSettings(addrs []netip.Addr) ([]Setting, error) {
	devices, err := devicesOf(addrs)
	if err != nil {
		return nil, err
	}
	check := checker{}
	if slices.ContainsFunc(addrs, netip.Addr.Is4) {
		check.not("net/ipv4/ip_forward", "0", "1", whyForward)
		check.not("net/ipv4/conf/all/rp_filter", "1", "2", whyFilter)
	}
	if slices.ContainsFunc(addrs, netip.Addr.Is6) {
		check.not("net/ipv6/conf/all/forwarding", "0", "1", whyForward)
	}
	for _, d := range devices {
		if slices.ContainsFunc(addrs, netip.Addr.Is4) && check.value("net/ipv4/conf/all/rp_filter") != "2" {
			check.not("net/ipv4/conf/"+d+"/rp_filter", "1", "2", whyFilter) // the larger one of the two holds
		}
		if slices.ContainsFunc(addrs, netip.Addr.Is6) {
			check.not("net/ipv6/conf/"+d+"/accept_ra", "1", "2", whyRA)
		}
	}
	slices.SortFunc(check.found, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return check.found, check.err
}

// FixSettings sets what BadSettings returned to what is wanted. It tries all of them, and
// returns the errors of writing to /proc/sys.
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

// devicesOf are the names of the links that have the addresses, sorted.
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
		names = append(names, link.Attrs().Name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
