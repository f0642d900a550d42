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

func machineAddressMissing(facts Facts) (out []doctor.Finding) {
	if facts.Expected == nil || len(facts.Addresses) == 0 { // these could not be read
		return nil
	}
	off := ipv6Disabled(facts)
	for _, a := range facts.Expected.Addresses {
		if _, has := facts.has(a); has || a.Is6() && (len(off) > 0 || slices.Contains(facts.Missing, IPv6)) {
			continue
		}
		out = append(out, found([]doctor.Mend{say("set the address by the machine's network configuration, or correct the addresses of machine " + facts.Expected.Machine + " in the inventory; --machine NAME if this is another one")},
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
func vipOnInterface(facts Facts) (out []doctor.Finding) {
	for _, address := range facts.Addresses {
		pool, has := facts.Expected.poolOf(address.Prefix.Addr())
		if !has || slices.Contains(dummies, address.Interface) {
			continue
		}
		mend := []doctor.Mend{say("where the machine needs it, as for the API server or by its network configuration, put " + address.Prefix.Addr().String() + " into exclude of pool " + pool.Name)}
		mend = append(mend, say(facts.whoBalances()+" by docs/guides/migrate-on-link.md, so that connections outlast it; then ip address del", address.Prefix.String(), "dev", doctor.Quoted(address.Interface), "takes away what is left over"))
		out = append(out, found(mend, "interface %s has %s of pool %s, so that the kernel answers for it", address.Interface, address.Prefix, pool.Name))
	}
	return out
}

// whoBalances returns the advice to take over from the balancer that runs on the machine, or that may have set the address.
func (f Facts) whoBalances() string {
	if running := f.running(balancers); len(running) > 0 {
		return "where a balancer set it, take over from it (" + strings.Join(running, ", ") + " runs here)"
	}
	return "where a balancer set it, such as kube-vip or keepalived, take over from it"
}

// ipvsAnswers: the kernel answers ARP for each of its addresses on every interface, unless arp_ignore is on. Of IPv6 it does not.
func ipvsAnswers(facts Facts) []doctor.Finding {
	i := slices.IndexFunc(facts.Addresses, func(a Address) bool { return slices.Contains(dummies, a.Interface) })
	if i < 0 {
		return nil
	}
	for _, l := range facts.Expected.links() {
		at, has := facts.has(l.Self)
		if !has || l.Self.Is6() || facts.Sysctls[arpIgnore] != "0" || facts.Sysctls["net/ipv4/conf/"+at.Interface+"/arp_ignore"] != "0" {
			continue
		}
		mend := append([]doctor.Mend{say("set strictARP: true in kube-proxy's configuration, which has it set these in all machines; for k3s and RKE2 that is kube-proxy-arg: [ipvs-strict-arp=true] in config.yaml:")}, facts.set(arpIgnore, "1")...)
		mend = append(mend, facts.set("net/ipv4/conf/all/arp_announce", "2")...)
		return []doctor.Finding{found(mend, "VIPs are on %s, and without strictARP the kernel answers for them on %s", facts.Addresses[i].Interface, at.Interface)}
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

func kernelTooOld(facts Facts) []doctor.Finding {
	major, minor, ok := versionOf(facts.Kernel)
	linkLocal := slices.ContainsFunc(facts.Expected.sessions(), func(s Session) bool { return s.Address.IsLinkLocalUnicast() })
	if !ok || !linkLocal || facts.Expected.Mode != inventory.ModeFabric || !slices.ContainsFunc(facts.Expected.Addresses, netip.Addr.Is4) || slices.Compare([]int{major, minor}, viaLinkLocal[:]) >= 0 {
		return nil
	}
	return []doctor.Finding{found([]doctor.Mend{say("install a newer kernel, or give the router an address of IPv4")}, "Linux %s takes no route of IPv4 by way of a link-local router, as 5.2 and later do", facts.Kernel)}
}

// versionOf reads the first two numbers of a release.
func versionOf(release string) (major, minor int, ok bool) {
	read, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return major, minor, read == 2
}
