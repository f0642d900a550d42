package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/inventory"
)

// at names a workload.
func (w Workload) at() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// stop returns the command that ends a workload, so that it can be started again.
func (w Workload) stop() []Mend {
	switch w.Kind {
	case "deployment":
		return []Mend{kubectl(w.Namespace, "scale", "deployment", Quoted(w.Name), "--replicas=0")}
	case "daemonset":
		return []Mend{kubectl(w.Namespace, "patch", "daemonset", Quoted(w.Name), `--type=merge -p '{"spec":{"template":{"spec":{"nodeSelector":{"plinth.dev/stopped":"true"}}}}}'`)}
	}
	return []Mend{say("move the file of the static Pod " + w.Name + " out of /etc/kubernetes/manifests of its machine, or out of the folder that its distribution has for it")}
}

// isOwn reports whether a program of Plinth's holds a lease.
func (c Cluster) isOwn(l Lease) bool {
	return strings.HasPrefix(l.Program, "plinth-") || l.Program != "" && l.Program == c.Program
}

// held reports whether a lease is renewed.
func (l Lease) held(now time.Time) bool {
	return l.Holder != "" && !now.IsZero() && now.Sub(l.Renewed) <= l.Lasts
}

// parked is how long a lease may last that somebody renews. Those of Plinth's that were moved away are held for 68 years, by nobody.
const parked = 24 * time.Hour

func leaseOfOther(c Cluster) (out []Finding) {
	for _, l := range c.Leases {
		if !l.held(c.Now) || l.Lasts > parked || l.Program == "" || c.isOwn(l) {
			continue
		}
		out = append(out, found("lease "+l.Namespace+"/"+l.Name, fmt.Sprintf("%s of %s has it, and renews it", l.Holder, l.Program), c.endController(l)...))
	}
	return out
}

// rancher gives k3s or RKE2 a setting by a file of its own beside its configuration, which nothing that is there already can be
// in the way of, and has it read that.
func rancher(distribution, setting, on string) Mend {
	key, _, _ := strings.Cut(strings.ReplaceAll(setting, "+", ""), ":")
	return Mend{On: on, Run: fmt.Sprintf(`mkdir -p /etc/rancher/%[1]s/config.yaml.d && printf '%[2]s\n' >/etc/rancher/%[1]s/config.yaml.d/plinth-%[3]s.yaml && systemctl restart '%[1]s*'`, distribution, setting, key)}
}

// endController returns the commands that end the cloud controller manager that holds a lease.
func (c Cluster) endController(lease Lease) []Mend {
	for _, w := range c.Workloads {
		if isCloudController(w) {
			return w.stop()
		}
	}
	for _, distribution := range []string{"k3s", "rke2"} {
		if strings.Contains(lease.Program+lease.Name, distribution) {
			return []Mend{rancher(distribution, "disable-cloud-controller: true", "each server of "+distribution)}
		}
	}
	return []Mend{say("end the cloud controller manager " + lease.Program + " on " + lease.Holder + "; where it is to stay, give Plinth's a lease and a port of its own: docs/guides/install.md, \"Beside another cloud controller manager\"")}
}

// isCloudController tells cloud controller managers by the names that their images have. kube-vip's is a balancer alone.
func isCloudController(w Workload) bool {
	return slices.ContainsFunc(w.Programs, func(p string) bool {
		last := p[strings.LastIndex(p, "/")+1:]
		return !strings.HasPrefix(last, "plinth-") && last != "kube-vip-cloud-provider" &&
			(strings.HasSuffix(last, "cloud-controller-manager") || strings.HasSuffix(last, "cloud-provider") || strings.HasPrefix(last, "cloud-provider-"))
	})
}

// eachWorkload finds something in workloads, one by one.
func eachWorkload(find func(Cluster, Workload) []Finding) func(Cluster) []Finding {
	return func(c Cluster) (out []Finding) {
		for _, w := range c.Workloads {
			out = append(out, find(c, w)...)
		}
		return out
	}
}

var otherCloudController = eachWorkload(func(_ Cluster, w Workload) []Finding {
	if !isCloudController(w) {
		return nil
	}
	return []Finding{found(w.at(), "it is another cloud controller manager, "+some(w.Programs), w.stop()...)}
})

func twoInstallations(c Cluster) (out []Finding) {
	for _, w := range c.Workloads {
		if w.is(ownController) && w.Namespace != c.Namespace && slices.ContainsFunc(c.Workloads, func(o Workload) bool { return o.is(ownController) && o.Namespace == c.Namespace }) {
			out = append(out, found(w.at(), "it is a second installation, beside that in namespace "+c.Namespace, w.stop()...))
		}
	}
	return out
}

func podSecurityForbids(c Cluster) []Finding {
	if c.Enforced == "" || c.Enforced == "privileged" {
		return nil
	}
	return []Finding{found("namespace "+c.Namespace, "it enforces the pod security level "+c.Enforced,
		kubectl("", "label", "--overwrite", "namespace", Quoted(c.Namespace), enforceLabel+"=privileged"))}
}

// needed are the ports that Plinth's programs listen on, each with what for.
func (c Cluster) needed() map[Port]string {
	all := map[Port]string{{"TCP", 10258}: "the controller", {"TCP", 10268}: "the agent", {"UDP", 3784}: "BFD"}
	for _, w := range c.own() {
		if port := w.Flags["secure-port"]; port != "" && port != "10258" && w.is(ownController) {
			delete(all, Port{"TCP", 10258})
		}
		if w.is(ownAgent) && w.Flags["bgp-port"] == "179" {
			all[Port{"TCP", 179}] = "BGP, by the agent's --bgp-port"
		}
	}
	return all
}

// own are the workloads of Plinth's.
func (c Cluster) own() (all []Workload) {
	for _, w := range c.Workloads {
		if w.isOwn() {
			all = append(all, w)
		}
	}
	return all
}

func (w Workload) isOwn() bool { return w.is(ownController) || w.is(ownAgent) }

var portTaken = eachWorkload(func(c Cluster, w Workload) (out []Finding) {
	if w.isOwn() || isCloudController(w) || balancerOf(w) != "" { // of these, other findings tell
		return nil
	}
	needed := c.needed()
	for _, p := range w.Ports {
		if what := needed[p]; what != "" {
			out = append(out, found(w.at(), fmt.Sprintf("it has port %d of %s of its machines, which is for %s", p.Number, p.Protocol, what), append([]Mend{say("look what it is for: all that it does ends with it. Plinth's ports can be others: --listen of the agent, --secure-port of the controller")}, w.stop()...)...))
		}
	}
	return out
})

func serviceLBRunning(c Cluster) (out []Finding) {
	for _, workload := range c.Workloads {
		if workload.Service == "" {
			continue
		}
		out = append(out, found(workload.at(), "it leads traffic of machines' ports to Service "+workload.Service,
			say("where --disable is among the arguments of k3s' servers, or enable-servicelb in RKE2's configuration, change it there"),
			rancher("k3s", "disable+: [servicelb]", "each server of k3s"),
			kubectl(workload.Namespace, "delete", "daemonset", Quoted(workload.Name))))
	}
	return out
}

// balancers are programs that give Services their addresses, or answer for them, by the end of their images' names.
var balancers = map[string]string{
	"metallb/controller": "MetalLB", "metallb/speaker": "MetalLB", "metallb-controller": "MetalLB", "metallb-speaker": "MetalLB",
	"kube-vip-cloud-provider": "kube-vip",
	"purelb/allocator":        "PureLB", "purelb/lbnodeagent": "PureLB",
	"openelb": "OpenELB", "kube-loxilb": "LoxiLB",
}

// balancerOf names the balancer that a workload is of; empty: none.
func balancerOf(w Workload) string {
	if w.Serves {
		return "kube-vip"
	}
	for program, name := range balancers {
		if w.is(program) {
			return name
		}
	}
	return ""
}

// classOnly reports whether Plinth leaves Services without a class to others.
func (c Cluster) classOnly() bool {
	return slices.ContainsFunc(c.own(), func(w Workload) bool { return w.Flags["load-balancer-class-only"] == "true" })
}

// stopServing returns the command by which a balancer serves Services no more. One that has the address of the API server as well goes on with that.
func (w Workload) stopServing() []Mend {
	switch {
	case !w.HoldsAPI:
		return w.stop()
	case w.Kind == "daemonset":
		return []Mend{kubectl(w.Namespace, "set", "env", "daemonset", Quoted(w.Name), "svc_enable=false")}
	}
	return []Mend{say("set svc_enable to false in the file of the static Pod " + w.Name + ", and leave it where it is: it has the address of the API server, too")}
}

func otherBalancer(cluster Cluster) (out []Finding) {
	if cluster.classOnly() {
		return nil
	}
	for _, w := range cluster.Workloads {
		if name := balancerOf(w); name != "" {
			out = append(out, found(w.at(), "it is of "+name+", which serves Services of type LoadBalancer", append([]Mend{say(migrations[name])}, w.stopServing()...)...))
		}
	}
	var last Object
	for _, b := range cluster.Blocks { // what gives from these is a part of the CNI
		if b.Use == ForVIPs && b.Of != last && (strings.HasSuffix(b.Of.Kind, ".cilium.io") || strings.HasSuffix(b.Of.Kind, ".projectcalico.org")) {
			last = b.Of
			out = append(out, found(b.Of.String(), "the CNI gives Services of type LoadBalancer addresses of "+b.Prefix.String(),
				say("write its addresses into the inventory (those of Cilium: plinth import cilium cluster), have Plinth take them over, and delete it only then: Services lose theirs with it")))
		}
	}
	for i := range out {
		out[i].Mend = slices.DeleteFunc(out[i].Mend, func(m Mend) bool { return m == Mend{} })
	}
	return out
}

// migrations say by which guide addresses are kept when a balancer is replaced, by its name.
var migrations = map[string]string{
	"MetalLB":  "to keep all addresses and connections: docs/guides/migrate-from-metallb.md, on the link docs/guides/migrate-on-link.md; without it its VIPs answer no more from that moment",
	"kube-vip": "to keep all addresses and connections, and kube-vip for the API server: docs/guides/migrate-on-link.md; without it its VIPs answer no more from that moment",
}

func otherSpeaker(cluster Cluster) (out []Finding) {
	if cluster.Inventory == nil {
		return nil
	}
	for _, neighbour := range cluster.Neighbours {
		for _, router := range cluster.Inventory.Routers {
			if !slices.Contains(router.Addresses, neighbour.Address) {
				continue
			}
			mend := []Mend{say("give one of the two an address or a router of its own: docs/guides/other-bgp-speakers.md")}
			if neighbour.Of.Kind == "bgppeers.metallb.io" { // what others announce may be pods' routes
				mend = []Mend{say(migrations["MetalLB"])}
				if !slices.ContainsFunc(cluster.Workloads, func(w Workload) bool { return balancerOf(w) == "MetalLB" }) { // nobody has these sessions any more
					mend = append(mend, neighbour.Of.remove())
				}
			}
			out = append(out, found(neighbour.Of.String(), fmt.Sprintf("another speaker has sessions with router %s, %s", router.Name, neighbour.Address), mend...))
		}
	}
	return out
}

var twoGivePodCIDRs = eachWorkload(func(c Cluster, w Workload) []Finding {
	if c.Inventory == nil || len(c.Inventory.PodNetwork.CIDRs) == 0 || !w.is("kube-controller-manager") || w.Flags["allocate-node-cidrs"] != "true" {
		return nil
	}
	return []Finding{found(w.at(), "it runs with --allocate-node-cidrs=true, and the inventory has podNetwork.cidrs", Mend{On: "each machine of the control plane",
		Run: "sed -i 's/--allocate-node-cidrs=true/--allocate-node-cidrs=false/' /etc/kubernetes/manifests/kube-controller-manager.yaml"})}
})

// routers of pods, by the end of their images' names.
var podRouters = map[string]string{"calico/node": "Calico", "cilium/cilium": "Cilium", "flannel/flannel": "flannel", "mirrored-flannel-cni-flannel": "flannel", "kube-router": "kube-router", "weave-kube": "Weave Net"}

var podsRoutedTwice = eachWorkload(func(c Cluster, w Workload) (out []Finding) {
	if c.Inventory == nil || c.Inventory.PodNetwork.Mode == inventory.ModeNone {
		return nil
	}
	for program, name := range podRouters {
		if w.is(program) {
			out = append(out, found(w.at(), name+" routes pods, and podNetwork.mode of the inventory is "+string(c.Inventory.PodNetwork.Mode), say("take podNetwork out of the inventory, so that "+name+" goes on; or take "+name+" away: docs/guides/pod-networks.md")))
		}
	}
	return out
})
