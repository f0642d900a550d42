package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// serviceLBKinds are the kinds that show servicelb, the balancer that k3s brings along.
var serviceLBKinds = slices.Concat(kindsOf("", "v1", "Node", "Service"), inNamespace(kubeSystem, kindsOf("apps", "v1", "DaemonSet")))

// serviceLBPrefix is the prefix of its labels and annotations.
const serviceLBPrefix = "svccontroller.k3s.cattle.io/"

// serviceLBNoted are its labels and annotations, of Nodes and of Services, with what Plinth does instead.
var serviceLBNoted = map[string]string{
	"enablelb":          "every machine on a subnet may answer for its VIPs; advertise.racks of a pool chooses racks",
	"lbpool":            "machines are chosen by racks: a pool with advertise.racks and a serviceSelector does it",
	"priorityclassname": "Plinth starts no Pods for Services",
	"tolerations":       "Plinth starts no Pods for Services",
}

// serviceLBReader reads the objects that show servicelb.
type serviceLBReader struct {
	*draft
	machines map[netip.Addr]string // names by address
}

// readServiceLB notes the Services that lose their addresses, which are those of machines: nothing of servicelb can be in an inventory.
func readServiceLB(d *draft) {
	reader := serviceLBReader{draft: d, machines: map[netip.Addr]string{}}
	for _, obj := range reader.of("", "Node") {
		if !slices.Contains(reader.options.Sources, "nodes") {
			obj.mark(meaningless, "metadata.name", "spec")
		}
		if n, ok := decode[corev1.Node](reader.draft, obj); ok {
			for _, a := range n.Status.Addresses {
				if addr, err := netip.ParseAddr(a.Address); err == nil {
					reader.machines[addr] = n.Name
				}
			}
		}
		reader.labels(obj, "metadata.labels")
	}
	served := reader.pods()
	for _, obj := range reader.of("", "Service") {
		obj.mark(meaningless, "metadata.name")
		service, ok := decode[corev1.Service](reader.draft, obj)
		switch {
		case !ok:
		case service.Spec.Type != corev1.ServiceTypeLoadBalancer:
			reader.passBy(obj)
		default:
			key := obj.namespace + "/" + obj.name
			reader.service(obj, service, served[key] != nil)
			delete(served, key)
		}
	}
	for key, o := range served {
		reader.note(o, "", Differs, fmt.Sprintf("leads traffic of machines' ports to Service %s, which was not read. It goes once the k3s server runs with --disable=servicelb", key))
		reader.ofWhole()
		o.mark(noted, "")
	}
	if len(reader.machines) > 0 && len(reader.inv.Pools) == 0 {
		reader.tellInventory(ByHand, "spec.pools", "servicelb has no pools, so there is none: write one of addresses that nobody else has. With addresses of the machines' own subnet it says advertise: {via: link}, and the rack the subnet")
	}
}

// pods are servicelb's DaemonSets by their Service. All others are without meaning.
func (r *serviceLBReader) pods() map[string]*object {
	served := map[string]*object{}
	for _, obj := range r.of("apps", "DaemonSet") {
		obj.mark(meaningless, "metadata.name")
		r.passBy(obj)
		var name, namespace string
		for _, l := range obj.leaves() {
			switch l.path {
			case join("metadata.labels", serviceLBPrefix+"svcname"):
				name = l.node.Value
			case join("metadata.labels", serviceLBPrefix+"svcnamespace"):
				namespace = l.node.Value
			}
		}
		if name != "" && strings.HasPrefix(obj.name, "svclb-") {
			served[namespace+"/"+name] = obj
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
func (r *serviceLBReader) service(obj *object, svc *corev1.Service, served bool) {
	var names, others []string
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		addr, _ := netip.ParseAddr(ingress.IP)
		if name := r.machines[addr]; name != "" {
			names = append(names, name)
		} else {
			others = append(others, ingress.IP)
		}
	}
	if len(r.machines) == 0 && len(others) > 0 && !served {
		r.passBy(obj)
		r.markAndNote(obj, "status.loadBalancer", NotValid, "nobody can tell whether its addresses are those of machines: give the Nodes to the import, too")
		return
	}
	if len(names) == 0 && !served || len(names) > 0 && len(others) > 0 {
		r.passBy(obj)
		return
	}
	obj.markIdle()
	if path, asked := askedAddresses(svc); !r.otherClass(obj, svc) && len(asked) > 0 {
		r.markAndNote(obj, path, ByHand, fmt.Sprintf("the Service asks for %v, and Plinth gives it this address or none: add it to a pool, or take this away", asked[0]))
	}
	slices.Sort(names)
	whose := "its addresses are those of machines"
	if len(names) > 0 {
		whose += " (" + strings.Join(slices.Compact(names), ", ") + ")"
	}
	path := "status.loadBalancer"
	if obj.has(path) {
		obj.mark(noted, path)
	}
	r.note(obj, path, ByHand, whose+", which are no VIPs: of Plinth it gets one of a pool. Run the k3s server with --disable=servicelb, and let DNS names point at the new address")
	r.labels(obj, "metadata.labels")
	r.labels(obj, "metadata.annotations")
}

// labels notes labels or annotations of servicelb's.
func (r *serviceLBReader) labels(obj *object, above string) {
	for _, label := range obj.leaves() {
		rest, ok := strings.CutPrefix(label.path, above+"["+serviceLBPrefix)
		switch message := serviceLBNoted[strings.TrimSuffix(rest, "]")]; {
		case !ok:
		case message == "":
			r.markAndNote(obj, label.path, UnknownField, "is not known here, and not carried over")
		default:
			r.drop(obj, label.path, message)
		}
	}
}
