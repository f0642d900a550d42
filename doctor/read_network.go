package doctor

import (
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// CustomKind is a kind of another program that is read where the cluster serves it.
type CustomKind struct{ Group, Kind string }

// customKinds are all of them, with what is read of one.
var customKinds = map[CustomKind]func(*Cluster, Object, map[string]any){
	{"metallb.io", "IPAddressPool"}: func(c *Cluster, o Object, spec map[string]any) {
		for _, text := range texts(spec["addresses"]) {
			c.addBlock(ForVIPs, o, text)
		}
	},
	{"metallb.io", "BGPPeer"}: func(c *Cluster, o Object, spec map[string]any) { c.addNeighbours(o, text(spec["peerAddress"])) },
	{"frrk8s.metallb.io", "FRRConfiguration"}: func(c *Cluster, o Object, spec map[string]any) {
		for _, router := range maps(in(spec["bgp"], "routers")) {
			for _, n := range maps(router["neighbors"]) {
				c.addNeighbours(o, text(n["address"]))
			}
		}
	},
	{"cilium.io", "CiliumLoadBalancerIPPool"}: func(cluster *Cluster, of Object, spec map[string]any) {
		for _, b := range maps(spec["blocks"]) {
			switch cidr, first, last := text(b["cidr"]), text(b["start"]), text(b["stop"]); {
			case spec["disabled"] == true:
			case cidr != "":
				cluster.addBlock(ForVIPs, of, cidr)
			case last != "":
				cluster.addBlock(ForVIPs, of, first+"-"+last)
			default:
				cluster.addBlock(ForVIPs, of, first)
			}
		}
	},
	{"cilium.io", "CiliumBGPClusterConfig"}: func(c *Cluster, o Object, spec map[string]any) {
		for _, instance := range maps(spec["bgpInstances"]) {
			for _, peer := range maps(instance["peers"]) {
				c.addNeighbours(o, text(peer["peerAddress"]))
			}
		}
	},
	{"crd.projectcalico.org", "IPPool"}: func(cluster *Cluster, of Object, spec map[string]any) {
		for _, use := range texts(spec["allowedUses"]) {
			if use == "LoadBalancer" {
				cluster.addBlock(ForVIPs, of, text(spec["cidr"]))
				return
			}
		}
		cluster.addBlock(ForPods, of, text(spec["cidr"]))
	},
	{"crd.projectcalico.org", "BGPPeer"}: func(c *Cluster, o Object, spec map[string]any) {
		c.addNeighbours(o, strings.Split(text(spec["peerIP"]), ":")[0], text(spec["peerIP"]))
	},
}

// CustomKinds are the kinds of other programs that are read.
func CustomKinds() (all []CustomKind) {
	for kind := range customKinds {
		all = append(all, kind)
	}
	return all
}

// readCustom reads an object of one of [CustomKinds].
func (c *Cluster) readCustom(one map[string]any) {
	group, _, _ := strings.Cut(text(one["apiVersion"]), "/")
	kind := text(one["kind"])
	read := customKinds[CustomKind{group, kind}]
	spec, _ := one["spec"].(map[string]any)
	if read == nil || spec == nil || text(in(one["metadata"], "deletionTimestamp")) != "" {
		return
	}
	read(c, Object{Kind: strings.ToLower(kind) + "s." + group, Namespace: text(in(one["metadata"], "namespace")), Name: text(in(one["metadata"], "name"))}, spec)
}

// in is the value at a key; nil: there is none.
func in(v any, key string) any {
	m, _ := v.(map[string]any)
	return m[key]
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, one := range list {
		out = append(out, text(one))
	}
	return out
}

func maps(v any) (out []map[string]any) {
	list, _ := v.([]any)
	for _, one := range list {
		if m, ok := one.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// ConfigMaps returns the ConfigMaps that are read, where Plinth is in a namespace.
func ConfigMaps(namespace string) []Object {
	all := []Object{{Kind: "configmap", Namespace: namespace, Name: acceptedConfigMap}, {Kind: "configmap", Namespace: flannelNamespace, Name: "kube-flannel-cfg"}}
	for _, name := range []string{"kube-proxy", "cilium-config", "kube-flannel-cfg", "ip-masq-agent", "kubevip"} {
		all = append(all, Object{Kind: "configmap", Namespace: kubeSystem, Name: name})
	}
	return all
}

// configMapReaders read ConfigMaps by their name: the settings of kube-proxy and of CNIs, and what program the controller is.
var configMapReaders = map[string]func(*Cluster, Object, *v1.ConfigMap){
	acceptedConfigMap: func(c *Cluster, o Object, cm *v1.ConfigMap) {
		if o.Namespace == c.Namespace {
			c.Program = word(cm.Annotations[acceptedProgram])
		}
	},
	"kube-proxy":    func(c *Cluster, _ Object, cm *v1.ConfigMap) { c.readProxy(cm) },
	"cilium-config": func(c *Cluster, o Object, cm *v1.ConfigMap) { c.readCilium(o, cm.Data) },
	"kube-flannel-cfg": func(c *Cluster, o Object, cm *v1.ConfigMap) {
		network := mappingIn(cm.Data["net-conf.json"])
		c.addBlock(ForPods, o, text(network["Network"]))
		c.addBlock(ForPods, o, text(network["IPv6Network"]))
	},
	"ip-masq-agent": func(c *Cluster, o Object, cm *v1.ConfigMap) {
		for _, cidr := range texts(mappingIn(cm.Data["config"])["nonMasqueradeCIDRs"]) {
			c.addBlock(Unmasked, o, cidr)
		}
	},
	"kubevip": func(cluster *Cluster, of Object, cm *v1.ConfigMap) {
		for key, value := range cm.Data {
			if kind, _, _ := strings.Cut(key, "-"); kind != "cidr" && kind != "range" {
				continue
			}
			for one := range strings.SplitSeq(value, ",") {
				cluster.addBlock(ForVIPs, of, one)
			}
		}
	},
}

// readConfigMap reads a ConfigMap, if it is one of those that a reader is there for.
func (c *Cluster) readConfigMap(cm *v1.ConfigMap) {
	if read := configMapReaders[cm.Name]; read != nil {
		read(c, Object{Kind: "configmap", Namespace: cm.Namespace, Name: cm.Name}, cm)
	}
}

// readCilium reads the settings of Cilium.
func (c *Cluster) readCilium(of Object, data map[string]string) {
	replacement := data["kube-proxy-replacement"]
	c.ProxyReplaced = c.ProxyReplaced || replacement == "true" || replacement == "strict"
	if ipam := data["ipam"]; ipam == "" || strings.HasPrefix(ipam, "cluster-pool") {
		c.addBlock(ForPods, of, data["cluster-pool-ipv4-cidr"])
		c.addBlock(ForPods, of, data["cluster-pool-ipv6-cidr"])
	}
	if data["routing-mode"] == "native" {
		c.addBlock(Unmasked, of, data["ipv4-native-routing-cidr"])
		c.addBlock(Unmasked, of, data["ipv6-native-routing-cidr"])
	}
}

// mappingIn reads a YAML mapping; nil: the text is none.
func mappingIn(text string) (all map[string]any) {
	if yaml.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return all
}

// readProxy reads kube-proxy's configuration, as kubeadm keeps it.
func (c *Cluster) readProxy(cm *v1.ConfigMap) {
	config := mappingIn(cm.Data["config.conf"])
	if config == nil {
		return
	}
	proxy := &Proxy{Namespace: cm.Namespace, Name: cm.Name, Mode: word(text(config["mode"])), ClusterCIDR: prefixes(text(config["clusterCIDR"]))}
	proxy.IPVS = in(config, "ipvs") != nil
	if arp, said := in(config["ipvs"], "strictARP").(bool); said {
		proxy.StrictARP = strconv.FormatBool(arp)
	}
	proxy.Health = hostOf("http://" + text(config["healthzBindAddress"]))
	c.Proxy = proxy
}
