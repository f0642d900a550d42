package machine

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"plinth.dev/plinth/doctor"
)

// Settings that are read beside those of the agent's, with slashes.
const (
	conntrackCount = "net/netfilter/nf_conntrack_count"
	conntrackMax   = "net/netfilter/nf_conntrack_max"
	neighbours4    = "net/ipv4/neigh/default/gc_thresh3"
	neighbours6    = "net/ipv6/neigh/default/gc_thresh3"
	arpIgnore      = "net/ipv4/conf/all/arp_ignore"
)

// SysctlsRead are the names of the settings that checks read, of a machine with these interfaces.
func SysctlsRead(interfaces []string) []string {
	all := []string{conntrackCount, conntrackMax, neighbours4, neighbours6, arpIgnore, "net/ipv4/conf/all/drop_gratuitous_arp", "net/ipv6/conf/all/disable_ipv6"}
	for _, name := range interfaces {
		all = append(all, "net/ipv4/conf/"+name+"/arp_ignore", "net/ipv4/conf/"+name+"/drop_gratuitous_arp", "net/ipv6/conf/"+name+"/drop_unsolicited_na", "net/ipv6/conf/"+name+"/disable_ipv6")
	}
	return all
}

// set are the commands that change a setting now, and from the next boot on.
func (f Facts) set(name, value string) []doctor.Mend {
	now, boot := doctor.SetSysctl(name, value)
	if f.Container {
		return []doctor.Mend{say("on the host: " + now + ", and for the next boot " + boot + "; on Talos both by machine.sysctls")}
	}
	all := []doctor.Mend{run(now), run(boot)}
	if files := f.SysctlFiles[name]; len(files) > 0 {
		all = append(all, say("and take it out of "+strings.Join(files, ", ")+", where it is set, too"))
	}
	return all
}

// load are the commands that load a module now, and from the next boot on.
func load(module string) []doctor.Mend {
	return []doctor.Mend{run("modprobe", module), run("echo", module, ">/etc/modules-load.d/plinth-"+module+".conf")}
}

// eachSetting finds those of the agent's settings whose name ends so.
func eachSetting(ends ...string) func(Facts) []doctor.Finding {
	return func(f Facts) (out []doctor.Finding) {
		for _, s := range f.Settings {
			if slices.Contains(ends, path.Base(s.Name)) {
				out = append(out, found(f.set(s.Name, s.Want), "%s is %s and should be %s", s.Name, s.Value, s.Want))
			}
		}
		return out
	}
}

var (
	forwardingOff         = eachSetting("ip_forward", "forwarding")
	reversePathAnywhere   = eachSetting("rp_filter")
	advertisementsIgnored = eachSetting("accept_ra")
	hashByAddress         = eachSetting("fib_multipath_hash_policy")
)

// reversePathStrict: what comes in by the only interface of a machine leaves by it, too, unless routers are reached otherwise.
func reversePathStrict(facts Facts) []doctor.Finding {
	routers := map[string]bool{}
	for _, s := range facts.Expected.sessions() {
		routers[s.Router] = true
	}
	if len(routers) < 2 && len(facts.interfaces()) < 2 {
		return nil
	}
	return reversePathAnywhere(facts)
}

// interfaces returns the interfaces of the machine's addresses in the inventory, sorted.
func (f Facts) interfaces() (names []string) {
	if f.Expected == nil {
		return nil
	}
	for _, a := range f.Expected.Addresses {
		if at, has := f.has(a); has {
			names = append(names, at.Interface)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func ipv6Disabled(facts Facts) (out []doctor.Finding) {
	names := facts.interfaces()
	if len(names) == 0 {
		names = []string{"all"} // it may have no address because of that
	}
	for _, name := range names {
		setting := "net/ipv6/conf/" + name + "/disable_ipv6"
		if facts.Expected.hasIPv6() && facts.Sysctls[setting] == "1" {
			mend := append(facts.set(setting, "0"), say("and have the interface's addresses of IPv6 set again, as by its network configuration: the kernel has forgotten them"))
			out = append(out, found(mend, "%s is 1, and the inventory has addresses of IPv6", setting))
		}
	}
	return out
}

func announcementsDropped(facts Facts) (out []doctor.Finding) {
	for _, link := range facts.Expected.links() {
		at, has := facts.has(link.Self)
		if !has {
			continue
		}
		names := []string{"net/ipv6/conf/" + at.Interface + "/drop_unsolicited_na"}
		if link.Self.Is4() { // the larger one of the two holds
			names = []string{"net/ipv4/conf/all/drop_gratuitous_arp", "net/ipv4/conf/" + at.Interface + "/drop_gratuitous_arp"}
		}
		for _, name := range names {
			if facts.Sysctls[name] == "1" {
				out = append(out, found(facts.set(name, "0"), "%s is 1, and VIPs move on %s", name, link.Subnet))
			}
		}
	}
	return out
}

// podsOfAMachine is how many pods may be neighbours: kubelets are told 110 to 250.
const podsOfAMachine = 256

func neighbourTableSmall(facts Facts) (out []doctor.Finding) {
	if facts.Expected == nil {
		return nil
	}
	need := facts.Expected.Neighbours + podsOfAMachine
	for _, name := range []string{neighbours4, neighbours6} {
		most, err := strconv.Atoi(facts.Sysctls[name])
		if err != nil || most >= need || name == neighbours6 && !facts.Expected.hasIPv6() {
			continue
		}
		want := 1024
		for want < 2*need {
			want *= 2
		}
		mend := append(facts.set(name, strconv.Itoa(want)), facts.set(strings.TrimSuffix(name, "3")+"2", strconv.Itoa(want/2))...)
		out = append(out, found(mend, "%s is %d, and the machine has %d machines of its subnets and %d pods for neighbours", name, most, facts.Expected.Neighbours, podsOfAMachine))
	}
	return out
}

func conntrackNearlyFull(facts Facts) []doctor.Finding {
	count, err := strconv.Atoi(facts.Sysctls[conntrackCount])
	most, err2 := strconv.Atoi(facts.Sysctls[conntrackMax])
	if err != nil || err2 != nil || most == 0 || count < most/10*9 {
		return nil
	}
	mend := append(facts.set(conntrackMax, strconv.Itoa(2*most)), say("and let kube-proxy keep it: conntrack.maxPerCore or conntrack.min in its configuration; each entry takes about 320 bytes"))
	if boot := load("nf_conntrack"); !facts.Container { // the setting is there once the module is
		mend = append(mend, boot[1])
	}
	return []doctor.Finding{found(mend, "%d connections are tracked of %d at most", count, most)}
}
