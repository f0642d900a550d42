package machine

import "slices"

// Programs that checks look for, by the names of their files or as they call themselves.
var (
	balancers   = []string{"cilium-agent", "kube-router", "kube-vip", "keepalived", "loxilb", "metallb", "purelb", "speaker", "ucarp"}
	speakers    = []string{"bgpd", "bird", "bird6", "calico-node", "cilium-agent", "exabgp", "gobgpd", "kube-router", "kube-vip", "plinth-agent", "speaker"}
	timekeepers = []string{"chronyd", "ntpd", "openntpd", "ptp4l", "phc2sys", "systemd-timesyncd"}
)

// ProgramsRead are the names of the programs that checks look for; those that hold addresses or sessions count in their network namespace
// alone.
func ProgramsRead() (inNamespace, anywhere []string) {
	return slices.Concat(balancers, speakers), timekeepers
}

// Speakers returns those of the programs that may have a session with a router.
func (f Facts) Speakers() []string { return f.running(speakers) }

// running returns those of some programs that run.
func (f Facts) running(names []string) (all []string) {
	for _, name := range f.Programs {
		if slices.Contains(names, name) {
			all = append(all, name)
		}
	}
	return all
}
