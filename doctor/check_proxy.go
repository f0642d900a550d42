package doctor

import (
	"fmt"
	"net/netip"
	"slices"
)

// at names kube-proxy's ConfigMap.
func (p Proxy) at() string { return "configmap " + p.Namespace + "/" + p.Name }

// edit changes kube-proxy's configuration by an expression of sed, and has kube-proxy read it.
func (p Proxy) edit(expression string) []Mend {
	get := kubectl(p.Namespace, "get", "configmap", Quoted(p.Name), "-o", "yaml").Run
	return []Mend{{Run: get + " | sed -e " + Quoted(expression) + " | " + kubectl(p.Namespace, "apply", "-f", "-").Run}, p.restart()}
}

func (p Proxy) restart() Mend {
	return kubectl(p.Namespace, "rollout", "restart", "daemonset", "kube-proxy")
}

// onLink are the pools that are announced on a link.
func (c Cluster) onLink() (pools []string) {
	if c.Inventory == nil {
		return nil
	}
	for _, p := range c.Inventory.Pools {
		if len(p.Links) > 0 {
			pools = append(pools, p.Name)
		}
	}
	return pools
}

func strictARPOff(c Cluster) []Finding {
	proxy := c.Proxy
	if proxy == nil || proxy.Mode != "ipvs" || proxy.StrictARP == "true" || c.Inventory != nil && len(c.onLink()) == 0 {
		return nil
	}
	expression := `s/strictARP: false/strictARP: true/`
	if proxy.StrictARP == "" && proxy.IPVS {
		expression = `s/^\( *\)ipvs:.*$/\1ipvs:\n\1  strictARP: true/`
	} else if proxy.StrictARP == "" {
		expression = `s/^\( *\)mode: .*$/&\n\1ipvs:\n\1  strictARP: true/`
	}
	return []Finding{found(proxy.at(), "kube-proxy runs in mode ipvs without strictARP, so that every machine answers for VIPs on the link", proxy.edit(expression)...)}
}

// modes are the modes of kube-proxy whose rules Plinth finds.
var modes = []string{"", "iptables", "ipvs", "nftables"}

func proxyModeUnknown(c Cluster) []Finding {
	if c.Proxy == nil || slices.Contains(modes, c.Proxy.Mode) {
		return nil
	}
	return []Finding{found(c.Proxy.at(), "kube-proxy runs in mode "+c.Proxy.Mode, c.Proxy.edit(`s/^\( *\)mode: .*$/\1mode: nftables/`)...)}
}

// proxyHealth is the address that agents of version 0.1 ask unless they are told otherwise.
const proxyHealth = "127.0.0.1:10256"

// asked returns the address at which the agents ask for kube-proxy's health; empty: none, or they are not installed and it is not known.
func (c Cluster) asked() string {
	for _, w := range c.own() {
		if !w.is(ownAgent) {
			continue
		}
		if at, said := w.Flags["proxy-health"]; said {
			return at
		}
		return proxyHealth
	}
	return ""
}

func proxyHealthElsewhere(cluster Cluster) []Finding {
	if cluster.Proxy == nil || cluster.ProxyReplaced {
		return nil
	}
	asked, err := netip.ParseAddrPort(cluster.asked())
	serves, err2 := netip.ParseAddrPort(cluster.Proxy.Health)
	if err != nil || err2 != nil || asked.Port() == serves.Port() && (serves.Addr().IsUnspecified() || serves.Addr() == asked.Addr()) {
		return nil
	}
	return []Finding{found(cluster.Proxy.at(), fmt.Sprintf("kube-proxy answers for its health at %s, and agents ask %s", serves, asked), cluster.Proxy.edit(`s/^\( *\)healthzBindAddress: .*$/\1healthzBindAddress: 0.0.0.0:10256/`)...)}
}

func proxyReplaced(c Cluster) []Finding {
	if !c.ProxyReplaced || c.asked() == "" {
		return nil
	}
	for _, w := range c.own() {
		if w.is(ownAgent) && w.Kind == "daemonset" {
			return []Finding{found(w.at(), "its agents ask kube-proxy for its health, and Cilium serves Services in its place",
				kubectl(w.Namespace, "patch", "daemonset", Quoted(w.Name), `--type=json -p '[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--proxy-health="}]'`),
				say("and write --proxy-health= into the manifests that you install from"))}
		}
	}
	return nil
}

func clusterCIDRTooWide(cluster Cluster) (out []Finding) {
	if cluster.Proxy == nil {
		return nil
	}
	for _, prefix := range cluster.Proxy.ClusterCIDR {
		what := ""
		for _, n := range cluster.Nodes {
			if n.holdsAddress(prefix) {
				what = "node " + n.Name
			}
		}
		if cluster.Inventory != nil && what == "" {
			for _, pool := range cluster.Inventory.PoolRanges().Having(prefix) {
				what = "pool " + pool
			}
		}
		if what != "" {
			out = append(out, found(cluster.Proxy.at(), fmt.Sprintf("its clusterCIDR %s covers %s", prefix, what), cluster.Proxy.edit(`s/^\( *\)clusterCIDR: .*$/\1clusterCIDR: ""/`)...))
		}
	}
	return out
}

// onLinkOff tells of agents without the capability that answers on links take.
func onLinkOff(c Cluster) (out []Finding) {
	pools := c.onLink()
	for _, w := range c.own() {
		if len(pools) == 0 || w.Kind != "daemonset" || !w.is(ownAgent) || w.Raw {
			continue
		}
		out = append(out, found(w.at(), "it lacks the capability NET_RAW, and on a link is announced: pool "+some(pools),
			kubectl(w.Namespace, "patch", "daemonset", Quoted(w.Name), `--type=json -p '[{"op":"add","path":"/spec/template/spec/containers/0/securityContext/capabilities/add/-","value":"NET_RAW"}]'`),
			say("which lasts until the next upgrade: with Helm set agent.onLink=true, with kustomize take deploy/components/on-link")))
	}
	return out
}
