package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// inPools returns findings on the addresses of a block that pools contain, one for each pool.
func (c Cluster) inPools(block netip.Prefix, object, whose string, mend func(pool string) []Mend) (out []Finding) {
	if c.Inventory == nil {
		return nil
	}
	for _, pool := range c.Inventory.PoolRanges().Having(block) {
		out = append(out, found(object, fmt.Sprintf("pool %s has %s of it, %s", pool, block, whose), mend(pool)...))
	}
	return out
}

// exclude returns the step by which an edit of the inventory takes a block out of a pool.
func exclude(block netip.Prefix) func(string) []Mend {
	return func(pool string) []Mend {
		return []Mend{say(fmt.Sprintf("take it out of pool %s in the inventory: exclude: [%s], or give the pool other addresses", pool, block))}
	}
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

var nodeInPool = eachNode(func(c Cluster, n Node) (out []Finding) {
	for _, a := range n.Addresses {
		out = append(out, c.inPools(single(a), "node "+n.Name, "its address", exclude(single(a)))...)
	}
	return out
})

func podRangeInPool(cluster Cluster) (out []Finding) {
	for _, n := range cluster.Nodes {
		for _, p := range n.PodCIDRs {
			out = append(out, cluster.inPools(p, "node "+n.Name, "which its pods have", exclude(p))...)
		}
	}
	return append(out, cluster.blocksInPools(ForPods, "which pods are given addresses from")...)
}

func (c Cluster) blocksInPools(use Use, whose string) (out []Finding) {
	for _, b := range c.Blocks {
		if b.Use == use {
			out = append(out, c.inPools(b.Prefix, b.Of.String(), whose, exclude(b.Prefix))...)
		}
	}
	return out
}

func serviceRangeInPool(c Cluster) []Finding {
	return c.blocksInPools(ForServices, "which cluster IPs are given from")
}

func externalIPInPool(c Cluster) (out []Finding) {
	for _, s := range c.Services {
		for _, a := range s.ExternalIPs {
			out = append(out, c.inPools(single(a), s.at(), "which is among its externalIPs", func(pool string) []Mend {
				return []Mend{say("to keep it: exclude: [" + a.String() + "] in pool " + pool + "; else"), kubectl(s.Namespace, "patch", "service", Quoted(s.Name), "--type=merge -p "+Quoted(s.withoutExternalIP(a)))}
			})...)
		}
	}
	return out
}

// withoutExternalIP is a merge patch that takes one address away from those that a Service has by externalIPs.
func (s Service) withoutExternalIP(a netip.Addr) string {
	left := []string{}
	for _, e := range s.ExternalIPs {
		if e != a {
			left = append(left, strconv.Quote(e.String()))
		}
	}
	return `{"spec":{"externalIPs":[` + strings.Join(left, ",") + `]}}`
}

func (s Service) at() string { return "service " + s.Namespace + "/" + s.Name }

// otherPoolInPool tells of pools of a balancer that runs. What is left of one that is gone does no harm.
func otherPoolInPool(c Cluster) (out []Finding) {
	for _, block := range c.Blocks {
		if block.Use != ForVIPs || !c.givesFrom(block.Of) {
			continue
		}
		out = append(out, c.inPools(block.Prefix, block.Of.String(), "which another balancer gives from", func(pool string) []Mend {
			if block.Of.Kind == "configmap" {
				return exclude(block.Prefix)(pool)
			}
			return []Mend{say("its addresses may be in use: let Plinth take them over by the guide that OtherBalancer names, and delete it (" + block.Of.remove().Run + ") after that, or give pool " + pool + " other addresses")}
		})...)
	}
	return out
}

// givesFrom reports whether the balancer runs that gives from a pool. Those of CNIs do.
func (c Cluster) givesFrom(pool Object) bool {
	of := "kube-vip"
	switch {
	case strings.HasSuffix(pool.Kind, ".metallb.io"):
		of = "MetalLB"
	case pool.Kind != "configmap":
		return true
	}
	return slices.ContainsFunc(c.Workloads, func(w Workload) bool { return balancerOf(w) == of })
}

// statusNotHeld tells of addresses that nobody takes back. While another balancer runs, its addresses are its own, and before Plinth's
// controller leads it is to take them over.
func statusNotHeld(cluster Cluster) (out []Finding) {
	if !cluster.leads() || len(otherBalancer(cluster)) > 0 || cluster.classOnly() {
		return nil
	}
	for _, service := range cluster.Services {
		if service.Allocated || service.Foreign {
			continue
		}
		for _, a := range service.Shown {
			out = append(out, cluster.inPools(single(a), service.at(), "which its status shows, and Plinth has not given", func(string) []Mend {
				return []Mend{kubectl(service.Namespace, "patch", "service", Quoted(service.Name), `--subresource=status --type=merge -p '{"status":{"loadBalancer":null}}'`)}
			})...)
		}
	}
	return out
}

func masqueradeMeetsPool(c Cluster) (out []Finding) {
	return c.blocksInPools(Unmasked, "where pods' packets go without being masqueraded")
}
