//go:build privileged

package kernel

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vishvananda/netlink"

	"plinth.dev/plinth/wait"
)

// advertise sends a router advertisement with a lifetime of half an hour (RFC 4861, section 4.2) by a link, if that has
// its link-local address by now: the kernel gives it some time after the link is up.
func advertise(t *testing.T, device string) {
	t.Helper()
	link, err := netlink.LinkByName(device)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
		t.Fatal(err)
	}
	everybody := &unix.SockaddrInet6{Addr: netip.MustParseAddr("ff02::1").As16(), ZoneId: uint32(link.Attrs().Index)}
	if err := unix.Sendto(fd, []byte{134, 0, 0, 0, 64, 0, 1800 >> 8, 1800 & 0xff, 0, 0, 0, 0, 0, 0, 0, 0}, 0, everybody); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Fatal(err)
	}
}

// TestFixingSettingsKeepsTheDefaultRouteOfAnAdvertisement: a kernel that begins to forward forgets what it learned by an accept_ra of 1.
func TestFixingSettingsKeepsTheDefaultRouteOfAnAdvertisement(t *testing.T) {
	uplink(t)
	ip(t, "link add side0 type veth peer name side1")
	t.Cleanup(func() { ip(t, "link del side0") })
	sysctls(t, map[string]string{"net/ipv6/conf/side0/accept_dad": "0", "net/ipv6/conf/side1/accept_dad": "0", "net/ipv6/conf/all/forwarding": "0"})
	sysctls(t, map[string]string{"net/ipv6/conf/side0/accept_ra": "1", "net/ipv6/conf/side0/accept_ra_defrtr": "1", "net/ipv6/conf/side1/accept_ra": "0", "net/ipv6/conf/side0/forwarding": "0"})
	ip(t, "link set side0 up")
	ip(t, "link set side1 up")
	wait.True(t, 10*time.Second, 10*time.Millisecond, "a default route is learned", func() (bool, string) {
		advertise(t, "side1")
		routes := ip(t, "-6 route show default")
		return routes != "", routes
	})
	found, err := BadSettings(addrs("fd01::11"), nil)
	if err == nil {
		err = FixSettings(found)
	}
	if err != nil {
		t.Fatal(err)
	}
	if left, err := BadSettings(addrs("fd01::11"), nil); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
	if routes := ip(t, "-6 route show default"); routes == "" {
		t.Errorf("the default route is lost; changed in this order: %v", found)
	}
}

// TestAMachineThatForwardsAndHasNoDefaultRouteIsToTakeAdvertisements: what it had learned is forgotten already. Beside a default route of
// somebody's hand its links take none.
func TestAMachineThatForwardsAndHasNoDefaultRouteIsToTakeAdvertisements(t *testing.T) {
	uplink(t)
	ip(t, "link add side0 type veth peer name side1")
	t.Cleanup(func() { ip(t, "link del side0") })
	sysctls(t, map[string]string{"net/ipv6/conf/side0/accept_dad": "0", "net/ipv6/conf/all/forwarding": "1", "net/ipv6/conf/side0/accept_ra": "1"})
	ip(t, "link set side0 up")
	ip(t, "link set side1 up")
	ip(t, "addr add 2001:db8:77::11/64 dev side0")
	named := func() bool {
		found, err := BadSettings(addrs("2001:db8:77::11"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(found, func(s Setting) bool { return s.Name == "net/ipv6/conf/side0/accept_ra" && s.Want == "2" })
	}
	if !named() {
		t.Error("accept_ra of the link is not named")
	}
	ip(t, "-6 route add default via 2001:db8:77::1 dev side0")
	if named() {
		t.Error("accept_ra of the link is named beside a default route")
	}
}
