package doctor

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of programs, as the last two parts of their images' names end.
const (
	ownController = "plinth-cloud-controller-manager"
	ownAgent      = "plinth-agent"
	kubeVIP       = "kube-vip"
	kubeRouter    = "kube-router"
)

// flagsRead are the flags whose values are read, of any program, each with the function that reduces its value. All others are left behind: they
// may have tokens.
var flagsRead = map[string]func(string) string{
	"allocate-node-cidrs":        truth,
	"cloud-provider":             word,
	"advertise-loadbalancer-ip":  truth,
	"load-balancer-class-only":   truth,
	"run-router":                 truth,
	"secure-port":                number,
	"bgp-port":                   number,
	"leader-elect-resource-name": word,
	"proxy-health":               hostOf,
	"peer-router-ips":            func(s string) string { return listOf(addresses(strings.Split(s, ","))) },
}

// truth reads a flag that says yes or no; one without a value says yes.
func truth(s string) string {
	if b, err := strconv.ParseBool(s); err == nil {
		return strconv.FormatBool(b)
	}
	return ""
}

func number(s string) string {
	if n, err := strconv.ParseUint(s, 10, 16); err == nil {
		return strconv.FormatUint(n, 10)
	}
	return ""
}

// word takes the name of a cloud provider or a lease, which has the form of a name in DNS.
func word(s string) string {
	if len(s) > 63 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return ""
	}
	return s
}

// hostOf takes host and port of a URL; empty where it is none.
func hostOf(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	at, err := netip.ParseAddrPort(u.Host)
	if err != nil {
		return ""
	}
	return at.String()
}

// readWorkload reads the containers of a pod.
func readWorkload(kind, namespace, name string, pod *v1.PodSpec) Workload {
	workload := Workload{Kind: kind, Namespace: namespace, Name: name}
	for i := range pod.Containers {
		container := &pod.Containers[i]
		workload.Programs = append(workload.Programs, programOf(container.Image))
		workload.readFlags(slices.Concat(container.Command, container.Args))
		for _, p := range container.Ports {
			switch protocol := string(p.Protocol); {
			case p.HostPort > 0:
				workload.addPort(protocol, p.HostPort)
			case pod.HostNetwork:
				workload.addPort(protocol, p.ContainerPort)
			}
		}
		if s := container.SecurityContext; s != nil {
			workload.Raw = workload.Raw || s.Privileged != nil && *s.Privileged || s.Capabilities != nil && slices.ContainsFunc(s.Capabilities.Add, func(c v1.Capability) bool {
				return strings.TrimPrefix(string(c), "CAP_") == "NET_RAW" || c == "ALL"
			})
		}
	}
	workload.Serves = workload.is(kubeVIP) && settings(pod)["svc_enable"] == "true"
	workload.HoldsAPI = workload.is(kubeVIP) && settings(pod)["cp_enable"] == "true"
	return workload
}

func (w *Workload) addPort(protocol string, number int32) {
	p := Port{Protocol: cmp.Or(protocol, "TCP"), Number: number}
	if !slices.Contains(w.Ports, p) {
		w.Ports = append(w.Ports, p)
	}
}

// readFlags takes --name=value, --name value and --name.
func (w *Workload) readFlags(words []string) {
	for i, text := range words {
		name, dashed := strings.CutPrefix(text, "--")
		if !dashed {
			continue
		}
		name, value, given := strings.Cut(name, "=")
		take := flagsRead[name]
		switch {
		case take == nil:
			continue
		case !given && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-"):
			value = words[i+1]
		case !given:
			value = "true"
		}
		if w.Flags == nil {
			w.Flags = map[string]string{}
		}
		w.Flags[name] = take(value)
	}
}

// is reports whether a program of that name is among the workload's.
func (w Workload) is(name string) bool {
	return slices.ContainsFunc(w.Programs, func(p string) bool { return p == name || strings.HasSuffix(p, "/"+name) })
}

// programOf is the last two parts of an image's name, without tag and digest: what a mirror leaves of it.
func programOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	parts := strings.Split(image, "/")
	parts[len(parts)-1], _, _ = strings.Cut(parts[len(parts)-1], ":")
	if len(parts) > 2 || len(parts) == 2 && strings.ContainsAny(parts[0], ".:") {
		parts = parts[1:] // the registry
	}
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// settings are the variables of a pod's containers that have a value. They decide what is read, and are not kept.
func settings(pod *v1.PodSpec) map[string]string {
	all := map[string]string{}
	for _, c := range pod.Containers {
		for _, e := range c.Env {
			all[e.Name] = e.Value
		}
	}
	return all
}

// addWorkload keeps a workload, and what its pod says of routers. kube-vip has neighbours as address:AS:password:multihop.
func (c *Cluster) addWorkload(workload Workload, pod *v1.PodSpec) {
	at := Object{Kind: workload.Kind, Namespace: workload.Namespace, Name: workload.Name}
	if !workload.Runs {
		return
	}
	if set := settings(pod); workload.is(kubeVIP) && set["bgp_enable"] == "true" {
		c.addNeighbours(at, set["bgp_peeraddress"])
		for peer := range strings.SplitSeq(set["bgp_peers"], ",") {
			address, _, _ := strings.Cut(strings.TrimPrefix(peer, "["), "]")
			if !strings.HasPrefix(peer, "[") {
				address, _, _ = strings.Cut(peer, ":")
			}
			c.addNeighbours(at, address)
		}
	}
	if workload.is(kubeRouter) && workload.Flags["run-router"] != "false" {
		c.addNeighbours(at, strings.Split(workload.Flags["peer-router-ips"], ",")...)
	}
	c.Workloads = append(c.Workloads, workload)
}

// selectsSome reports whether a pod may be on one of the Nodes, by its node selector.
func selectsSome(pod *v1.PodSpec, nodes []v1.Node) bool {
	return len(pod.NodeSelector) == 0 || slices.ContainsFunc(nodes, func(n v1.Node) bool {
		for key, value := range pod.NodeSelector {
			if has, ok := n.Labels[key]; !ok || has != value {
				return false
			}
		}
		return true
	})
}

// servedBy is the Service that a DaemonSet of servicelb leads to; empty: it is none.
func servedBy(labels map[string]string) string {
	name, namespace := labels[serviceLBPrefix+"svcname"], labels[serviceLBPrefix+"svcnamespace"]
	if name == "" || namespace == "" {
		return ""
	}
	return namespace + "/" + name
}

// isStatic reports whether a kubelet runs a pod from a file.
func isStatic(p *v1.Pod) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Node" }) || p.Annotations[v1.MirrorPodAnnotationKey] != ""
}
