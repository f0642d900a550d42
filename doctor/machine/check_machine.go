package machine

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/doctor"
	"plinth.dev/plinth/inventory"
)

// dummies are interfaces on which kube-proxy in mode ipvs and kube-router have the addresses of Services.
var dummies = []string{"kube-dummy-if", "kube-ipvs0"}

func machineAddressMissing(f Facts) (out []doctor.Finding) {
	if f.Expected == nil || len(f.Addresses) == 0 { // these could not be read
		return nil
	}
	off := ipv6Disabled(f)
	for _, a := range f.Expected.Addresses {
		if _, has := f.has(a); has || a.Is6() && (len(off) > 0 || slices.Contains(f.Missing, IPv6)) {
			continue
		}
		out = append(out, found([]doctor.Mend{say("set the address by the machine's network configuration, or correct the addresses of machine " + f.Expected.Machine + " in the inventory; --machine NAME if this is another one")},
			"no interface has its address %s of the inventory", a))
	}
	return out
}

func linkDown(f Facts) (out []doctor.Finding) {
	for _, name := range f.interfaces() {
		at := f.Addresses[slices.IndexFunc(f.Addresses, func(a Address) bool { return a.Interface == name })]
		switch {
		case !at.Up:
			out = append(out, found([]doctor.Mend{run("ip link set dev", doctor.Quoted(name), "up")}, "interface %s, which has its address, is set down", name))
		case !at.Carrier:
			out = append(out, found([]doctor.Mend{run("ip -brief link show", doctor.Quoted(name)), say("and plug in the cable, or see what the other end says")}, "interface %s, which has its address, has no carrier", name))
		}
	}
	return out
}

// vipOnInterface prints no command that takes an address away: without any socket, connections of Services may go by it, which the kernel's
// tables alone pass on, and whoever set it may do so on each machine.
func vipOnInterface(f Facts) (out []doctor.Finding) {
	for _, a := range f.Addresses {
		pool, has := f.Expected.poolOf(a.Prefix.Addr())
		if !has || slices.Contains(dummies, a.Interface) {
			continue
		}
		mend := []doctor.Mend{say("where the machine needs it, as for the API server or by its network configuration, put " + a.Prefix.Addr().String() + " into exclude of pool " + pool.Name)}
		mend = append(mend, say(f.whoBalances()+" by docs/guides/migrate-on-link.md, so that connections outlast it; then ip address del", a.Prefix.String(), "dev", doctor.Quoted(a.Interface), "takes away what is left over"))
		out = append(out, found(mend, "interface %s has %s of pool %s, so that the kernel answers for it", a.Interface, a.Prefix, pool.Name))
	}
	return out
}

// whoBalances says what to take over from.
func (f Facts) whoBalances() string {
	if running := f.running(balancers); len(running) > 0 {
		return "where a balancer set it, take over from it (" + strings.Join(running, ", ") + " runs here)"
	}
	return "where a balancer set it, such as kube-vip or keepalived, take over from it"
}

// ipvsAnswers: the kernel answers ARP for each of its addresses on every interface, unless arp_ignore is on. Of IPv6 it does not.
func ipvsAnswers(f Facts) []doctor.Finding {
	i := slices.IndexFunc(f.Addresses, func(a Address) bool { return slices.Contains(dummies, a.Interface) })
	if i < 0 {
		return nil
	}
	for _, l := range f.Expected.links() {
		at, has := f.has(l.Self)
		if !has || l.Self.Is6() || f.Sysctls[arpIgnore] != "0" || f.Sysctls["net/ipv4/conf/"+at.Interface+"/arp_ignore"] != "0" {
			continue
		}
		mend := append([]doctor.Mend{say("set strictARP: true in kube-proxy's configuration, which has it set these in all machines; for k3s and RKE2 that is kube-proxy-arg: [ipvs-strict-arp=true] in config.yaml:")}, f.set(arpIgnore, "1")...)
		mend = append(mend, f.set("net/ipv4/conf/all/arp_announce", "2")...)
		return []doctor.Finding{found(mend, "VIPs are on %s, and without strictARP the kernel answers for them on %s", f.Addresses[i].Interface, at.Interface)}
	}
	return nil
}

func clockUnsynchronized(f Facts) []doctor.Finding {
	if !f.Unsynchronized || len(f.running(timekeepers)) > 0 { // it has just begun, or says itself what is wrong
		return nil
	}
	return []doctor.Finding{found([]doctor.Mend{run("timedatectl set-ntp true"), say("or install chrony; where the host of a virtual machine keeps its clock, leave it")}, "the kernel knows nobody that keeps its clock")}
}

// lacks is a check for what the kernel lacks and the inventory needs.
func lacks(feature string, needs func(*Expected) bool, message string, mend ...doctor.Mend) func(Facts) []doctor.Finding {
	return func(f Facts) []doctor.Finding {
		if f.Expected == nil || !slices.Contains(f.Missing, feature) || !needs(f.Expected) {
			return nil
		}
		return []doctor.Finding{found(mend, "%s", message)}
	}
}

var (
	ipv6Missing = lacks(IPv6, (*Expected).hasIPv6, "the kernel has no IPv6, and the machine has addresses of it in the inventory",
		run("grep -o ipv6.disable=1 /proc/cmdline"), say("and take ipv6.disable=1 out of the kernel's command line, or load the module ipv6"))
	packetSocketsMissing = lacks(PacketSockets, func(e *Expected) bool { return len(e.Links) > 0 }, "the kernel has no packet sockets, by which agents answer on links", load("af_packet")...)
	md5Missing           = lacks(TCPMD5, func(e *Expected) bool {
		return slices.ContainsFunc(e.Sessions, func(s Session) bool { return s.Password })
	},
		"the kernel has no TCP MD5, and a session has a password (RFC 2385)", say("take a kernel with CONFIG_TCP_MD5SIG, which is not in FIPS mode, or have the session do without passwordFrom"))
	vxlanMissing = lacks(VXLAN, func(e *Expected) bool { return e.Mode == inventory.ModeOverlay }, "the kernel has no VXLAN, by which pods reach those of other subnets",
		say("install the kernel's further modules, such as linux-modules-extra-$(uname -r) on Ubuntu or kernel-modules-extra on Fedora"))
)

// viaLinkLocal is the first version of Linux that takes IPv4 routes by way of IPv6 (RTA_VIA).
var viaLinkLocal = [2]int{5, 2}

func kernelTooOld(f Facts) []doctor.Finding {
	major, minor, ok := versionOf(f.Kernel)
	linkLocal := slices.ContainsFunc(f.Expected.sessions(), func(s Session) bool { return s.Address.IsLinkLocalUnicast() })
	if !ok || !linkLocal || f.Expected.Mode != inventory.ModeFabric || !slices.ContainsFunc(f.Expected.Addresses, netip.Addr.Is4) || slices.Compare([]int{major, minor}, viaLinkLocal[:]) >= 0 {
		return nil
	}
	return []doctor.Finding{found([]doctor.Mend{say("install a newer kernel, or give the router an address of IPv4")}, "Linux %s takes no route of IPv4 by way of a link-local router, as 5.2 and later do", f.Kernel)}
}

// versionOf reads the first two numbers of a release.
func versionOf(release string) (major, minor int, ok bool) {
	read, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return major, minor, read == 2
}
