package importer

import (
	"regexp"
	"slices"
	"strings"
)

// withoutMeaning is a rule for parts of some kinds of objects that have no meaning for an inventory, with the reason. What has none is marked by its path, and each such path is
// one of these: a test holds that.
type withoutMeaning struct {
	kinds  string // by name; empty: all
	path   string // a regular expression of the whole path; empty: the whole object
	always bool   // wherever it stands; else where its reader finds that the reason holds
	reason string
}

// Paths of what Kubernetes runs.
const (
	podPath       = `spec(\.template\.spec)?\.`
	containerPath = podPath + `containers\[\d+\]`
	programs      = "DaemonSet Deployment Pod"
)

// leavesWithoutMeaning are all that there are.
var leavesWithoutMeaning = []withoutMeaning{
	{"", `apiVersion|kind`, false, "they say what the object is, and that is read"},
	{"", `metadata`, false, "labels, annotations and what Kubernetes keeps itself: what counts of them is read one by one"},
	{"", `metadata\.name`, false, "nothing in the inventory is called after the object, and nothing that was read refers to it"},
	{"", `status`, false, "it is what is, and not what is to be: addresses of Nodes and Services are read one by one"},

	{"Node", `spec`, false, "kubelets and controllers keep it on the Node: providerID, podCIDRs and taints are read one by one"},
	{"Node", `spec\.taints\[\d+\]\.timeAdded`, false, "Kubernetes writes it where the taint takes effect"},
	{"Node", `status\.addresses\[\d+\]`, false, "a host name that is the Node's own goes without saying"},

	{"Service", "", false, "nothing is asked of the balancer that is read: the Service has another type or class, or the addresses of another balancer"},
	{"Service", `spec\.(type|selector|ports|sessionAffinity(Config)?|clusterIPs?|ipFamil(y|ies|yPolicy)|(external|internal)TrafficPolicy|healthCheckNodePort|publishNotReadyAddresses|allocateLoadBalancerNodePorts|loadBalancerSourceRanges|trafficDistribution|externalName|externalIPs)`,
		true, "the Service stays in the cluster as it is, where kube-proxy and Plinth read it"},
	{"Service", `spec\.loadBalancer(IP|Class)`, false, "Plinth answers the Service as it is: it has the address in a pool, or answers the class"},

	{programs, "", false, "a program that is none of the balancer's; a Pod that its DaemonSet is read for; or one that is told what another one is told, too"},
	{programs, `spec\.(selector|replicas|strategy|updateStrategy|revisionHistoryLimit|minReadySeconds|progressDeadlineSeconds|paused|template\.metadata)`, true, "how Kubernetes rolls the program out"},
	{programs, podPath + `(activeDeadlineSeconds|automountServiceAccountToken|dns(Config|Policy)|enableServiceLinks|ephemeralContainers|hostAliases|host(IPC|Network|PID|Users|name)|imagePullSecrets|initContainers|os|overhead|preemptionPolicy|priority(ClassName)?|readinessGates|restartPolicy|runtimeClassName|schedulerName|securityContext|serviceAccount(Name)?|setHostnameAsFQDN|shareProcessNamespace|subdomain|terminationGracePeriodSeconds|topologySpreadConstraints|volumes)`,
		true, "how Kubernetes runs the program: where it runs is read of nodeSelector, affinity and nodeName"},
	{programs, podPath + `tolerations`, true, "they let Pods run on Nodes with taints, and choose none: a taint that is not tolerated is not held against a Node, whose machine announces all the same"},
	{programs, containerPath, false, "a container beside kube-vip's"},
	{programs, containerPath + `\.(name|image(PullPolicy)?|resources|resizePolicy|securityContext|volume(Mounts|Devices)|ports|(liveness|readiness|startup)Probe|lifecycle|restartPolicy|stdin(Once)?|tty|terminationMessage(Path|Policy)|workingDir)`,
		true, "how Kubernetes runs the container: what it is told is read of env, args and command"},
	{programs, containerPath + `\.env\[\d+\]`, false, "a variable of the control plane, of elections or of the program itself (kubeVIPMeaningless); or one whose value says that nothing is done"},
	{programs, containerPath + `\.(args|command)(\[\d+\])?`, false, "the program itself, its subcommand, a flag that says what such a variable says, one whose value follows, or one of kube-vip's cloud provider"},
	{programs, podPath + `(nodeSelector|affinity|nodeName)`, false, "the system of a machine; preferences; a Node of a rack that other Pods run in; or who answers for Services is read elsewhere"},

	{"ConfigMap", "", false, "it is not the one that kube-vip's cloud provider reads"},
	{"ConfigMap", `data\.(allow-share-.*|search-order|skip-end-ips-in-cidr)`, false, "it says what goes without saying; or what it does to a prefix is said there"},
	{"ServiceAccount Namespace Role RoleBinding ClusterRole ClusterRoleBinding", "", false, "rights of kube-vip: Plinth has its own"},

	{"ServiceL2Status ServiceBGPStatus BGPSessionStatus ConfigurationState", "", false, "MetalLB writes it: it is what is, and not what is to be"},
	{"BFDProfile BGPPeer", `spec\.(echoMode|passiveMode|disableMP|dualStackAddressFamily)`, false, "it says what goes without saying"},
	{"BGPPeer", `spec\.localASN`, false, "it is the number of myASN"},
	{"BGPPeer", `spec\.(holdTime|keepaliveTime|bfdProfile|ebgpMultiHop|enableGracefulRestart|password(Secret)?)`, false, "the peer that the router was made of says the same"},
	{"IPAddressPool", `spec\.avoidBuggyIPs`, false, "no address of the pool ends with .0 or .255"},
	{"Community", `spec\.communities\[\d+\]`, false, "every inventory has that name"},

	{"CiliumBGPNodeConfig CiliumNode", "", false, "Cilium writes it of the other objects"},
	{"CiliumBGPClusterConfig", `spec\.bgpInstances\[\d+\](\.peers\[\d+\])?\.name`, false, "an instance has no name in an inventory, and a peer that is left out, or there twice, none either"},
	{"CiliumBGPClusterConfig", `spec\.bgpInstances\[\d+\]\.peers\[\d+\]\.(peerConfigRef\.(group|kind)|autoDiscovery)`, false, "there is one kind that is referred to; and discovery counts where there is no address"},
	{"CiliumBGPPeerConfig", `spec\.families\[\d+\]\.(afi|safi|advertisements)`, false, "which advertisements it chooses is said at those, and sessions carry both families"},
	{"CiliumBGPPeerConfig", `spec\.(gracefulRestart\.restartTimeSeconds|ebgpMultihop)`, false, "it counts where graceful restart is on, and for routers of another AS"},
	{"CiliumL2AnnouncementPolicy CiliumLoadBalancerIPPool", `spec\.(externalIPs|disabled|allowFirstLastIPs)`, false, "it says what goes without saying"},
	{"CiliumLoadBalancerIPPool", `spec\.blocks\[\d+\]\.(start|stop)`, false, "the prefix beside it counts"},

	{"device virtual-machine ip-address prefix rack ipam/vlans", "", false, "a device of another role, one that a note leaves out, or an object that no device refers to: notes count them"},
	{"device virtual-machine", `[a-z0-9_]+`, false, "it says nothing of a datacenter (netboxPlain), is referred to by another field, or a note counts it"},

	{"group group_vars host host_vars", `vars\..*`, false, "a variable of Ansible itself, or of another part of the cluster; others are named in one note for each file"},
	{"group host", `(children|groups)\[\d+\]`, false, "the group says nothing that another one does not say of the host"},
}

// spokenOf are the rows for a path of a kind of objects.
func spokenOf(kind, path string, fits func(withoutMeaning) bool) (rows []int) {
	for i, row := range leavesWithoutMeaning {
		ofKind := row.kinds == "" || slices.Contains(strings.Fields(row.kinds), kind)
		if ofKind && fits(row) && rowPaths[i].MatchString(path) {
			rows = append(rows, i)
		}
	}
	return rows
}

// rowPaths are the paths of the rows.
var rowPaths = func() (all []*regexp.Regexp) {
	for _, row := range leavesWithoutMeaning {
		all = append(all, regexp.MustCompile(`^(`+row.path+`)$`))
	}
	return all
}()

// markIdle records that something of an object is meant for a balancer, and marks what has no meaning wherever it stands in one of that kind, as far as
// it has no mark yet.
func (o *object) markIdle() {
	delete(o.fates, "")
	always := func(row withoutMeaning) bool { return row.always }
	for _, l := range o.leaves() {
		for path := l.path; path != ""; path = path[:max(0, parentEnd(path))] {
			if _, spoken := o.fates[path]; spoken {
				break
			}
			if len(spokenOf(o.kind, path, always)) > 0 {
				o.mark(meaningless, path)
				break
			}
		}
	}
}
