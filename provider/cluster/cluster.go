package cluster

import (
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/endpoints"
	"plinth.dev/plinth/provider/nodeindex"
	"plinth.dev/plinth/routing"
)

// objects are the objects of each kind, but the claims.
type objects struct {
	nodes    []*v1.Node
	services []*v1.Service
	slices   []*discoveryv1.EndpointSlice
	cidrs    []*networkingv1.ServiceCIDR
}

// Of assembles the cluster from objects of each kind, around the VIPs that are held and besides. A claim of a newer version's is an error: the
// holder of the address cannot be told.
func Of(claims []*networkingv1.IPAddress, nodes []*v1.Node, services []*v1.Service, all []*discoveryv1.EndpointSlice, cidrs ...*networkingv1.ServiceCIDR) (preview.Cluster, error) {
	held, err := heldBy(claims)
	if err != nil {
		return preview.Cluster{}, err
	}
	return objects{nodes, services, all, cidrs}.whole(held), nil
}

// whole is around, with the part that does not depend on the VIPs that are held: it takes a look at each endpoint there is.
func (o objects) whole(held holdings) preview.Cluster {
	c := o.around(held)
	c.Taken, c.Endpoints = o.taken(), o.endpoints()
	return c
}

// around assembles the cluster from the objects around the VIPs that are held.
func (o objects) around(held holdings) preview.Cluster {
	cluster := preview.Cluster{Nodes: map[string]preview.Node{}, Homes: map[netip.Addr][]string{}, Owners: map[netip.Addr]string{}}
	held.onLinks(&cluster)
	identities := nodeindex.Identities(o.nodes)
	for i, n := range o.nodes {
		one := nodeOf(n)
		one.Identity = identities[i]
		cluster.Nodes[n.Name] = one
	}
	spread := o.spreads(held)
	for _, s := range o.services {
		if vips := held.of(s); len(vips) > 0 {
			cluster.Services = append(cluster.Services, preview.Service{
				Key: keyOf(s), Labels: s.Labels, VIPs: vips, Home: s.Annotations[lb.HomeAnnotation], Endpoints: spread[keyOf(s)],
				LocalTraffic: s.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal,
			})
		}
	}
	slices.SortFunc(cluster.Services, func(a, b preview.Service) int { return a.Key.Compare(b.Key) })
	return cluster
}

func nodeOf(node *v1.Node) preview.Node {
	_, excluded := node.Labels[v1.LabelNodeExcludeBalancers]
	status, said := saidNow(node)
	return preview.Node{
		Identity: nodeindex.Identity(node), Excluded: excluded, Silent: !serves(node), NoSession: status == v1.ConditionFalse && said.NoSessionIsUp(), NoAgent: !hasAgent(node),
		Down: endsDown(said), LinkProblems: said.Links, ProxyRefuses: said.ProxyRefuses, NoRules: said.RulesLost.All(),
		PodCIDRs: routing.ParsePodCIDRs(node.Spec.PodCIDRs), Created: node.CreationTimestamp.UTC(),
	}
}

// endsDown are the routers' ends of sessions that are down. An agent that keeps an older inventory may have others.
func endsDown(said lb.Report) (ends []preview.SessionEnd) {
	if said.Unread.Inventory != "" {
		return nil
	}
	for _, d := range said.Silent() {
		if peer, err := netip.ParseAddr(d.Peer); err == nil {
			ends = append(ends, preview.SessionEnd{Router: d.Router, Peer: peer})
		}
	}
	return ends
}

// hasAgent reports whether an agent has ever said anything.
func hasAgent(n *v1.Node) bool {
	return nodeindex.Condition(n, lb.FabricReady).Type != ""
}

// saidNow is the status that the agent gives its Node, and its report. What it said before its kubelet fell silent may be
// long ago.
func saidNow(n *v1.Node) (status v1.ConditionStatus, said lb.Report) {
	if nodeindex.Condition(n, v1.NodeReady).Status == v1.ConditionUnknown {
		return "", lb.Report{}
	}
	fabric := nodeindex.Condition(n, lb.FabricReady)
	return fabric.Status, lb.ParseReport(fabric.Message)
}

// serves reports whether the kubelet was heard of, and the agent says that some router keeps
// its routes.
func serves(n *v1.Node) bool {
	fabric := nodeindex.Condition(n, lb.FabricReady)
	carried := fabric.Status != v1.ConditionFalse || fabric.Reason != lb.FabricSessionsDown && fabric.Reason != lb.FabricCutOff
	return hasAgent(n) && carried && nodeindex.Condition(n, v1.NodeReady).Status != v1.ConditionUnknown
}

// holdings are the VIPs that each Service holds, by the word of the claims.
type holdings map[lb.ServiceKey][]holding

type holding struct {
	vip   netip.Addr
	uid   string // of the Service; empty: not told
	homes string // machines that are to answer for the VIP on a link, comma separated; empty: not told
	owner string // the one that says that it does; empty: none has
}

// heldBy reads the claims.
func heldBy(claims []*networkingv1.IPAddress) (holdings, error) {
	all := holdings{}
	for _, c := range claims {
		obj, ours := claim.Read(c)
		if err := claim.CheckFormat(c); err != nil {
			return nil, err
		}
		if !ours {
			continue
		}
		for n, k := range obj.Holders {
			h := holding{vip: obj.Addr, homes: obj.Homes, owner: obj.Owner}
			if n == 0 && k == obj.Parent {
				h.uid = obj.ParentUID
			}
			all[k] = append(all[k], h)
		}
	}
	return all, nil
}

// onLinks sets the machines that are to answer for VIPs on links, and the owners that do.
func (all holdings) onLinks(cluster *preview.Cluster) {
	for _, held := range all {
		for _, h := range held {
			if h.homes != "" {
				cluster.Homes[h.vip] = strings.Split(h.homes, ",")
			}
			if h.owner != "" {
				cluster.Owners[h.vip] = h.owner
			}
		}
	}
}

// of are the VIPs of a Service that agents announce.
func (all holdings) of(service *v1.Service) (vips []netip.Addr) {
	class := service.Spec.LoadBalancerClass
	if service.Spec.Type != v1.ServiceTypeLoadBalancer || class != nil && !lb.IsOurClass(*class) {
		return nil
	}
	for _, h := range all[keyOf(service)] {
		if h.uid == "" || h.uid == string(service.UID) {
			vips = append(vips, h.vip)
		}
	}
	return vips
}

func keyOf(s *v1.Service) lb.ServiceKey { return lb.ServiceKey{Namespace: s.Namespace, Name: s.Name} }

// spreads counts the endpoints of the Services that hold a VIP, by family and Node.
func (o objects) spreads(held holdings) map[lb.ServiceKey]map[lb.Family]advertise.Spread {
	proxies := map[lb.ServiceKey]lb.Proxy{} // other than kube-proxy
	for _, s := range o.services {
		if p := lb.ProxyOf(s.Labels); p != lb.KubeProxy {
			proxies[keyOf(s)] = p
		}
	}
	best := map[lb.ServiceKey]map[netip.Addr]endpoints.Endpoint{}
	for _, slice := range o.slices {
		parsed := endpoints.Of(slice)
		if len(held[parsed.Service]) == 0 {
			continue
		}
		if best[parsed.Service] == nil {
			best[parsed.Service] = map[netip.Addr]endpoints.Endpoint{}
		}
		notFollowed := !parsed.Followers.Include(proxies[parsed.Service])
		for _, e := range parsed.All {
			e.NotFollowed = notFollowed
			if have, twice := best[parsed.Service][e.Addr]; !twice || have.Worth() < e.Worth() {
				best[parsed.Service][e.Addr] = e
			}
		}
	}
	out := map[lb.ServiceKey]map[lb.Family]advertise.Spread{}
	for k, all := range best {
		out[k] = map[lb.Family]advertise.Spread{}
		for addr, e := range all {
			out[k][lb.FamilyOf(addr)] = with(out[k][lb.FamilyOf(addr)], e)
		}
	}
	return out
}

// with counts one endpoint more.
func with(spread advertise.Spread, endpoint endpoints.Endpoint) advertise.Spread {
	if spread.Ready == nil {
		spread = advertise.Spread{Ready: map[string]int{}, Ending: map[string]int{}}
	}
	switch endpoint.Worth() {
	case advertise.WorthReady:
		spread.Ready[endpoint.Node]++
	case advertise.WorthEnding:
		spread.Ending[endpoint.Node]++
	case advertise.WorthNotFollowed:
		spread.NotFollowed = true
	case advertise.WorthNothing:
	}
	return spread
}
