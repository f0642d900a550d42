package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// serviceLBKinds are what tells of servicelb, the balancer that k3s brings along.
var serviceLBKinds = slices.Concat(kindsOf("", "v1", "Node", "Service"), inNamespace(kubeSystem, kindsOf("apps", "v1", "DaemonSet")))

// serviceLBPrefix is that of its labels and annotations.
const serviceLBPrefix = "svccontroller.k3s.cattle.io/"

// serviceLBNoted are its labels and annotations, of Nodes and of Services, with what Plinth does instead.
var serviceLBNoted = map[string]string{
	"enablelb":          "every machine on a subnet may answer for its VIPs; advertise.racks of a pool chooses racks",
	"lbpool":            "machines are chosen by racks: a pool with advertise.racks and a serviceSelector does it",
	"priorityclassname": "Plinth starts no Pods for Services",
	"tolerations":       "Plinth starts no Pods for Services",
}

// serviceLBReader reads what tells of servicelb.
type serviceLBReader struct {
	*draft
	machines map[netip.Addr]string // names by address
}

// readServiceLB tells which Services lose their addresses, which are those of machines: nothing of servicelb can be in an inventory.
func readServiceLB(d *draft) {
	r := serviceLBReader{draft: d, machines: map[netip.Addr]string{}}
	for _, o := range r.of("", "Node") {
		if !slices.Contains(r.options.Sources, "nodes") {
			o.mark(meaningless, "metadata.name", "spec")
		}
		if n, ok := decode[corev1.Node](r.draft, o); ok {
			for _, a := range n.Status.Addresses {
				if addr, err := netip.ParseAddr(a.Address); err == nil {
					r.machines[addr] = n.Name
				}
			}
		}
		r.labels(o, "metadata.labels")
	}
	served := r.pods()
	for _, o := range r.of("", "Service") {
		o.mark(meaningless, "metadata.name")
		s, ok := decode[corev1.Service](r.draft, o)
		switch {
		case !ok:
		case s.Spec.Type != corev1.ServiceTypeLoadBalancer:
			r.passBy(o)
		default:
			key := o.namespace + "/" + o.name
			r.service(o, s, served[key] != nil)
			delete(served, key)
		}
	}
	for key, o := range served {
		r.note(o, "", Differs, fmt.Sprintf("leads traffic of machines' ports to Service %s, which was not read. It goes once the k3s server runs with --disable=servicelb", key))
		r.ofWhole()
		o.mark(noted, "")
	}
	if len(r.machines) > 0 && len(r.inv.Pools) == 0 {
		r.tellInventory(ByHand, "spec.pools", "servicelb has no pools, so there is none: write one of addresses that nobody else has. With addresses of the machines' own subnet it says advertise: {via: link}, and the rack the subnet")
	}
}

// pods are servicelb's DaemonSets by their Service. All others are without meaning.
func (r *serviceLBReader) pods() map[string]*object {
	served := map[string]*object{}
	for _, o := range r.of("apps", "DaemonSet") {
		o.mark(meaningless, "metadata.name")
		r.passBy(o)
		var name, namespace string
		for _, l := range o.leaves() {
			switch l.path {
			case join("metadata.labels", serviceLBPrefix+"svcname"):
				name = l.node.Value
			case join("metadata.labels", serviceLBPrefix+"svcnamespace"):
				namespace = l.node.Value
			}
		}
		if name != "" && strings.HasPrefix(o.name, "svclb-") {
			served[namespace+"/"+name] = o
		}
	}
	return served
}

// passBy marks an object that is not servicelb's. Where kube-vip reads such objects, too, it has said that of those that are not its own.
func (r *serviceLBReader) passBy(o *object) {
	if !slices.Contains(r.options.Sources, "kube-vip") {
		o.mark(meaningless, "")
	}
}

// service notes a Service whose addresses are those of machines, and what it asks servicelb for.
func (r *serviceLBReader) service(o *object, s *corev1.Service, served bool) {
	var names, others []string
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		addr, _ := netip.ParseAddr(ingress.IP)
		if name := r.machines[addr]; name != "" {
			names = append(names, name)
		} else {
			others = append(others, ingress.IP)
		}
	}
	if len(r.machines) == 0 && len(others) > 0 && !served {
		r.passBy(o)
		o.mark(noted, "status.loadBalancer")
		r.note(o, "status.loadBalancer", NotValid, "nobody can tell whether its addresses are those of machines: give the Nodes to the import, too")
		return
	}
	if len(names) == 0 && !served || len(names) > 0 && len(others) > 0 {
		r.passBy(o)
		return
	}
	o.markIdle()
	if path, asked := askedAddresses(s); !r.otherClass(o, s) && len(asked) > 0 {
		o.mark(noted, path)
		r.note(o, path, ByHand, fmt.Sprintf("the Service asks for %v, and Plinth gives it this address or none: add it to a pool, or take this away", asked[0]))
	}
	slices.Sort(names)
	whose := "its addresses are those of machines"
	if len(names) > 0 {
		whose += " (" + strings.Join(slices.Compact(names), ", ") + ")"
	}
	path := "status.loadBalancer"
	if o.has(path) {
		o.mark(noted, path)
	}
	r.note(o, path, ByHand, whose+", which are no VIPs: of Plinth it gets one of a pool. Run the k3s server with --disable=servicelb, and let DNS names point at the new address")
	r.labels(o, "metadata.labels")
	r.labels(o, "metadata.annotations")
}

// labels notes labels or annotations of servicelb's.
func (r *serviceLBReader) labels(o *object, above string) {
	for _, l := range o.leaves() {
		rest, ok := strings.CutPrefix(l.path, above+"["+serviceLBPrefix)
		switch message := serviceLBNoted[strings.TrimSuffix(rest, "]")]; {
		case !ok:
		case message == "":
			o.mark(noted, l.path)
			r.note(o, l.path, UnknownField, "is not known here, and not carried over")
		default:
			r.drop(o, l.path, message)
		}
	}
}
