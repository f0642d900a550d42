package doctor

import "fmt"

// check is one thing that is looked for.
type check struct {
	kind  Kind
	means string // a row of docs/reference/doctor.md
	find  func(Cluster) []Finding
}

// checks are all of them, in the order of their findings: what comes first keeps the most from working.
var checks = []check{
	{"KubernetesTooOld", "The API server is older than 1.33, the first version that serves what Plinth holds VIPs with (`IPAddress` of `networking.k8s.io/v1`).", kubernetesTooOld},
	{"KubeletVersionSkew", "A kubelet is newer than the API server, or more than three minor versions older: Kubernetes supports neither.", kubeletVersionSkew},
	{"LeaseOfOther", "The cloud controller manager of another program renews a lease of cloud controller managers: two would initialise the same Nodes, and of one lease Plinth's waits for ever.", leaseOfOther},
	{"OtherCloudController", "A DaemonSet, Deployment or static Pod of another cloud controller manager runs. It initialises Nodes, and has port 10258 of its machines.", otherCloudController},
	{"TwoInstallations", "Two namespaces have a controller of Plinth's. One of them waits.", twoInstallations},
	{"PodSecurityForbids", "The namespace of Plinth enforces a pod security level that refuses pods on the host's network, so that no agent starts.", podSecurityForbids},
	{"PortTaken", "A pod on the host's network has a port that Plinth needs: 10258 of the controller, 10268 of the agent, 3784 of BFD, or 179 where the agent listens on it.", portTaken},
	{"CNIMissing", "A kubelet says that its container runtime has no pod network, so that no pod but those on the host's network starts.", cniMissing},
	{"NodeNotReady", "The kubelet says that its Node is not ready, or is silent.", nodeNotReady},
	{"NodeUninitialized", "A Node waits for a cloud provider: it bears the taint `node.cloudprovider.kubernetes.io/uninitialized`, and nothing that runs takes it off.", nodeUninitialized},
	{"KubeletWithoutCloud", "A Node has neither a provider ID nor the taint of one that waits for it: its kubelet runs without `--cloud-provider=external`.", kubeletWithoutCloud},
	{"NoMachine", "The inventory has no machine that is the Node.", noMachine},
	{"ProviderIDOfOther", "A Node has the provider ID of another cloud provider, which nobody can change, and no machine of the inventory has it among its `aliases`.", providerIDOfOther},
	{"NodeIPUnknown", "A kubelet runs with a `--node-ip` that its machine does not have in the inventory.", nodeIPUnknown},
	{"NodeShutdownTaint", "A Node is ready, and bears the taint `node.cloudprovider.kubernetes.io/shutdown` of a cloud provider that is gone: nobody takes it off.", nodeShutdownTaint},
	{"StillOutOfService", "A Node is ready, and bears the taint `node.kubernetes.io/out-of-service`, which keeps all pods away.", stillOutOfService},
	{"NetworkUnavailable", "A Node is ready, and its condition `NetworkUnavailable` says that it has no routes, which a route controller wrote that does not run any more. It keeps pods away.", networkUnavailable},
	{"NodeExcluded", "A Node bears the label `node.kubernetes.io/exclude-from-external-load-balancers`: its machine announces no VIP. Of Nodes of the control plane it is told only where no other Node is left.", nodeExcluded},
	{"ClockDiffers", "The clock of a machine is not that of the API server's, by the lease of its kubelet.", clockDiffers},
	{"ServiceLBRunning", "servicelb of k3s or RKE2 serves a Service: it leads traffic of machines' ports there, and writes machines' addresses into the status.", serviceLBRunning},
	{"OtherBalancer", "Another balancer gives Services of type LoadBalancer their addresses. Each writes the status, and none knows what the other gave.", otherBalancer},
	{"OtherSpeaker", "Another BGP speaker of the machines has a session with a router of the inventory: a router has one session with an address.", otherSpeaker},
	{"TwoGivePodCIDRs", "kube-controller-manager gives Nodes their pod CIDRs (`--allocate-node-cidrs`), and so does Plinth, for the inventory has `podNetwork.cidrs`.", twoGivePodCIDRs},
	{"PodsRoutedTwice", "A CNI routes pods between machines, and so does Plinth, for the inventory has a `podNetwork`.", podsRoutedTwice},
	{"NodeInPool", "A pool has the address of a Node.", nodeInPool},
	{"PodRangeInPool", "A pool has addresses of pods: pod CIDRs of Nodes, or what a CNI gives from.", podRangeInPool},
	{"ServiceRangeInPool", "A pool has addresses that cluster IPs are given from.", serviceRangeInPool},
	{"ExternalIPInPool", "A pool has an address that is among the `externalIPs` of a Service: every kube-proxy answers for it already.", externalIPInPool},
	{"OtherPoolInPool", "A pool has addresses that another balancer, which runs, gives from: two Services may get the same one.", otherPoolInPool},
	{"StatusNotHeld", "The status of a Service shows an address of a pool that Plinth has not given: every kube-proxy answers for it already, and nobody is given it.", statusNotHeld},
	{"MasqueradeMeetsPool", "A CNI does not masquerade what pods send to addresses of a pool: clients that are pods reach a VIP of another machine with an address that its router may not know.", masqueradeMeetsPool},
	{"ClusterCIDRTooWide", "The `clusterCIDR` of kube-proxy covers machines or VIPs: kube-proxy takes what comes from there for packets of pods.", clusterCIDRTooWide},
	{"StrictARPOff", "kube-proxy in mode `ipvs` has every VIP on an interface of every machine, and without `strictARP` each of these answers for VIPs on the link.", strictARPOff},
	{"ProxyModeUnknown", "kube-proxy runs in a mode whose rules Plinth does not know.", proxyModeUnknown},
	{"ProxyHealthElsewhere", "kube-proxy answers for its health at another address than the agents ask, so that they announce no VIP.", proxyHealthElsewhere},
	{"ProxyReplaced", "Cilium serves Services in the place of kube-proxy, whose health the agents ask for, so that they announce no VIP.", proxyReplaced},
	{"OnLinkOff", "A pool is announced on a link, and the agents may not open the sockets for it.", onLinkOff},
	{"RouterSilent", "An agent says that a session with a router is down; the cause is one of [those of sessions](reasons.md#why-a-session-is-down).", routerSilent},
	{"AddressAnswers", "A host that is no machine of Plinth's answers for a VIP.", addressAnswers},
	{"AddressOnInterface", "An interface of a machine has a VIP, so that its kernel answers for it: something is left over of another balancer.", addressOnInterface},
	{"LinkBroken", "An agent says that it cannot answer for VIPs on a link; the cause is one of [those of links](reasons.md#why-a-vip-is-not-answered-for-on-a-link).", linkBroken},
	{"KernelSettings", "Settings of a machine's kernel keep packets from pods.", kernelSettings},
	{"ProxyUnhealthy", "kube-proxy on a machine says that it does not serve, so that the machine announces no VIP.", proxyUnhealthy},
	{"ProxyRulesLost", "kube-proxy's rules on a machine are gone.", proxyRulesLost},
}

// Examine returns the findings of all checks, the one that keeps the most from working first.
func Examine(c Cluster) []Finding {
	out := []Finding{}
	for _, check := range checks {
		found := check.find(c)
		for i := range found {
			found[i].Kind = check.kind
			found[i] = found[i].Printable()
		}
		sortFindings(found)
		out = append(out, found...)
	}
	return out
}

// found is a finding; its check says of what kind.
func found(object, message string, mend ...Mend) Finding {
	return Finding{Object: object, Message: message, Mend: mend}
}

func onNode(n Node, mend []Mend, format string, args ...any) Finding {
	return found("node "+n.Name, fmt.Sprintf(format, args...), mend...)
}

// eachNode finds something in Nodes, one by one.
func eachNode(find func(Cluster, Node) []Finding) func(Cluster) []Finding {
	return func(c Cluster) (out []Finding) {
		for _, n := range c.Nodes {
			out = append(out, find(c, n)...)
		}
		return out
	}
}
