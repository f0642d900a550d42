package doctor

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
)

// Objects are the objects that an API server returned. Most of each is left behind by [Read].
type Objects struct {
	Server       string
	Now          time.Time
	Namespace    string // Plinth's
	Inventory    *inventory.Inventory
	Namespaces   []v1.Namespace // Plinth's alone counts
	Nodes        []v1.Node
	Pods         []v1.Pod // of kube-system, and those of agents
	DaemonSets   []appsv1.DaemonSet
	Deployments  []appsv1.Deployment
	ConfigMaps   []v1.ConfigMap // of kube-system and kube-flannel, and what was accepted
	Leases       []coordinationv1.Lease
	Services     []v1.Service
	ServiceCIDRs []networkingv1.ServiceCIDR
	Custom       []map[string]any // of the kinds of [CustomKinds]
	Unread       []string
}

// Names of others that are looked for.
const (
	kubeSystem        = "kube-system"
	flannelNamespace  = "kube-flannel"
	nodeLeases        = "kube-node-lease"
	acceptedConfigMap = "plinth-accepted"
	acceptedProgram   = "plinth.dev/program"
	enforceLabel      = "pod-security.kubernetes.io/enforce"
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	providedNodeIP    = "alpha.kubernetes.io/provided-node-ip"
	leaseSuffix       = "cloud-controller-manager"
	serviceLBPrefix   = "svccontroller.k3s.cattle.io/"
)

// Read reduces objects to what checks read of them.
func Read(objects Objects) Cluster {
	cluster := Cluster{Server: objects.Server, Now: objects.Now.UTC(), Namespace: objects.Namespace, Inventory: objects.Inventory, Unread: slices.Sorted(slices.Values(objects.Unread))}
	for _, n := range objects.Namespaces {
		if n.Name == objects.Namespace {
			cluster.Enforced = n.Labels[enforceLabel]
		}
	}
	for i := range objects.Nodes {
		cluster.Nodes = append(cluster.Nodes, readNode(&objects.Nodes[i]))
	}
	slices.SortFunc(cluster.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	cluster.readLeases(objects.Leases)
	for i := range objects.Services {
		cluster.readService(&objects.Services[i])
	}
	cluster.readWorkloads(objects)
	for i := range objects.ConfigMaps {
		cluster.readConfigMap(&objects.ConfigMaps[i])
	}
	for _, s := range objects.ServiceCIDRs {
		for _, cidr := range s.Spec.CIDRs {
			cluster.addBlock(ForServices, Object{Kind: "servicecidr", Name: s.Name}, cidr)
		}
	}
	for _, one := range objects.Custom {
		cluster.readCustom(one)
	}
	cluster.sort()
	return cluster
}

// readWorkloads reads DaemonSets, Deployments and static Pods. What a DaemonSet or Deployment makes is read there.
func (c *Cluster) readWorkloads(objects Objects) {
	for i := range objects.DaemonSets {
		d := &objects.DaemonSets[i]
		w := readWorkload("daemonset", d.Namespace, d.Name, &d.Spec.Template.Spec)
		w.Runs, w.Service = selectsSome(&d.Spec.Template.Spec, objects.Nodes), servedBy(d.Labels)
		c.addWorkload(w, &d.Spec.Template.Spec)
	}
	for i := range objects.Deployments {
		d := &objects.Deployments[i]
		w := readWorkload("deployment", d.Namespace, d.Name, &d.Spec.Template.Spec)
		w.Runs = (d.Spec.Replicas == nil || *d.Spec.Replicas > 0) && selectsSome(&d.Spec.Template.Spec, objects.Nodes)
		c.addWorkload(w, &d.Spec.Template.Spec)
	}
	for i := range objects.Pods {
		if p := &objects.Pods[i]; isStatic(p) && p.Status.Phase != v1.PodFailed && p.Status.Phase != v1.PodSucceeded {
			w := readWorkload("pod", p.Namespace, p.Name, &p.Spec)
			w.Runs = true
			c.addWorkload(w, &p.Spec)
		}
	}
}

func (c *Cluster) sort() {
	slices.SortFunc(c.Workloads, func(a, b Workload) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(c.Leases, func(a, b Lease) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(c.Services, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(c.Blocks, func(a, b Block) int {
		return cmp.Or(cmp.Compare(a.Use, b.Use), a.Of.compare(b.Of), a.Prefix.Compare(b.Prefix))
	})
	c.Blocks = slices.Compact(c.Blocks)
	slices.SortFunc(c.Neighbours, func(a, b Neighbour) int { return cmp.Or(a.Of.compare(b.Of), a.Address.Compare(b.Address)) })
	c.Neighbours = slices.Compact(c.Neighbours)
}

func (o Object) compare(p Object) int {
	return cmp.Or(cmp.Compare(o.Kind, p.Kind), cmp.Compare(o.Namespace, p.Namespace), cmp.Compare(o.Name, p.Name))
}

// readLeases reads the leases of cloud controller managers, and from those of kubelets the clocks of Nodes.
func (c *Cluster) readLeases(all []coordinationv1.Lease) {
	for i := range all {
		lease := &all[i]
		read := Lease{Namespace: lease.Namespace, Name: lease.Name, Program: writerOf(lease)}
		if lease.Spec.HolderIdentity != nil {
			read.Holder = *lease.Spec.HolderIdentity
		}
		if lease.Spec.RenewTime != nil {
			read.Renewed = lease.Spec.RenewTime.UTC()
		}
		if lease.Spec.LeaseDurationSeconds != nil {
			read.Lasts = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
		}
		switch {
		case lease.Namespace == nodeLeases:
			if n := c.node(lease.Name); n != nil {
				n.Renewed = read.Renewed
			}
		case strings.HasSuffix(lease.Name, leaseSuffix):
			c.Leases = append(c.Leases, read)
		}
	}
}

// writerOf is the program that wrote the holder of a lease; empty: that is not known.
func writerOf(l *coordinationv1.Lease) string {
	for _, f := range l.ManagedFields {
		if f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), "f:holderIdentity") {
			return f.Manager
		}
	}
	return ""
}

// node is the Node of that name; nil: there is none.
func (c *Cluster) node(name string) *Node {
	i, found := slices.BinarySearchFunc(c.Nodes, name, func(n Node, name string) int { return cmp.Compare(n.Name, name) })
	if !found {
		return nil
	}
	return &c.Nodes[i]
}

func (c *Cluster) readService(service *v1.Service) {
	read := Service{Namespace: service.Namespace, Name: service.Name, ExternalIPs: addresses(service.Spec.ExternalIPs)}
	if service.Spec.Type == v1.ServiceTypeLoadBalancer {
		read.Foreign = service.Spec.LoadBalancerClass != nil && !lb.IsOurClass(*service.Spec.LoadBalancerClass)
		for _, in := range service.Status.LoadBalancer.Ingress {
			read.Shown = append(read.Shown, addresses([]string{in.IP})...)
		}
		for _, condition := range service.Status.Conditions {
			read.Allocated = read.Allocated || condition.Type == lb.VIPAllocated
		}
	}
	if len(read.Shown)+len(read.ExternalIPs) > 0 {
		c.Services = append(c.Services, read)
	}
}

// addresses parses addresses, and leaves out those that cannot be parsed.
func addresses(all []string) (out []netip.Addr) {
	for _, s := range all {
		if a, err := netip.ParseAddr(strings.TrimSpace(s)); err == nil {
			out = append(out, a.Unmap().WithZone(""))
		}
	}
	return out
}

// prefixes parses CIDRs with commas or blanks between them, and leaves out those that cannot be parsed.
func prefixes(text string) (out []netip.Prefix) {
	for _, s := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// addBlock takes CIDRs, or a range of addresses.
func (c *Cluster) addBlock(use Use, of Object, text string) {
	all := prefixes(text)
	if len(all) == 0 {
		if r, err := document.ParseRange(strings.ReplaceAll(text, " ", "")); err == nil {
			all = r.Prefixes()
		}
	}
	for _, p := range all {
		c.Blocks = append(c.Blocks, Block{Use: use, Of: of, Prefix: p})
	}
}

func (c *Cluster) addNeighbours(of Object, all ...string) {
	for _, a := range addresses(all) {
		c.Neighbours = append(c.Neighbours, Neighbour{Of: of, Address: a})
	}
}
