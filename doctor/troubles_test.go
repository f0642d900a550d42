package doctor

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
)

// takesAway are troubles that leave nothing for others to change.
var takesAway = map[string]bool{
	"a Node that waits before Plinth is installed": true, "a control plane that is all there is": true,
	"a name that a shell would read otherwise": true, "nothing but Nodes that are well": true, "pod CIDRs from two": true,
}

// troubles are what can be wrong, one at a time, with what is found and a part of what is said.
var troubles = []struct {
	name string
	make func(*testing.T, *Objects)
	want string
	says string
}{
	{"an old API server", func(_ *testing.T, o *Objects) {
		o.Server = "v1.32.9"
		for i := range o.Nodes {
			o.Nodes[i].Status.NodeInfo.KubeletVersion = "v1.32.9"
		}
	}, "KubernetesTooOld", "upgrade the cluster to Kubernetes 1.33"},
	{"an old kubelet", func(_ *testing.T, o *Objects) { o.Nodes[0].Status.NodeInfo.KubeletVersion = "v1.32.9" }, "KubeletVersionSkew", "upgrade the kubelet of w1"},
	{"a kubelet that is newer than the API server", func(_ *testing.T, o *Objects) { o.Nodes[0].Status.NodeInfo.KubeletVersion = "v1.37.0+k3s1" }, "KubeletVersionSkew", "control plane to 1.37 first"},
	{"a lease that k3s renews", func(_ *testing.T, o *Objects) {
		o.Leases = append(o.Leases, lease("kube-system", "k3s-cloud-controller-manager", "cp", "k3s", noon))
	}, "LeaseOfOther", "printf 'disable-cloud-controller: true\\n' >/etc/rancher/k3s/config.yaml.d/plinth-disable-cloud-controller.yaml && systemctl restart 'k3s*'\n"},
	{"a lease of RKE2", func(_ *testing.T, o *Objects) {
		o.Leases = append(o.Leases, lease("kube-system", "rke2-cloud-controller-manager", "cp", "rke2", noon))
	}, "LeaseOfOther", "systemctl restart 'rke2*'"},
	{"a lease of a program that nobody knows", func(_ *testing.T, o *Objects) {
		o.Leases = append(o.Leases, lease("kube-system", "cloud-controller-manager", "cp", "acme", noon))
	}, "LeaseOfOther", "end the cloud controller manager acme on cp"},
	{"another cloud controller manager", func(_ *testing.T, o *Objects) {
		o.DaemonSets = append(o.DaemonSets, daemonSet("kube-system", "hcloud", pod("docker.io/hetznercloud/hcloud-cloud-controller-manager:v1.30")))
	}, "OtherCloudController", `kubectl -n kube-system patch daemonset hcloud --type=merge -p '{"spec":{"template":{"spec":{"nodeSelector"`},
	{"the cloud controller manager of RKE2, a static Pod", func(_ *testing.T, o *Objects) {
		p := v1.Pod{ObjectMeta: meta("kube-system", "cloud-controller-manager-cp"), Spec: pod("index.docker.io/rancher/rke2-cloud-provider:v1.36").Spec}
		p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
		o.Pods = append(o.Pods, p)
	}, "OtherCloudController", "move the file of the static Pod"},
	{"a second installation", func(_ *testing.T, o *Objects) {
		o.Deployments = append(o.Deployments, deployment("kube-system", "ccm", pod("plinth-cloud-controller-manager:v1")))
	}, "TwoInstallations", "kubectl -n kube-system scale deployment ccm --replicas=0"},
	{"a namespace for restricted pods", func(_ *testing.T, o *Objects) {
		o.Namespaces[0].Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	}, "PodSecurityForbids", "kubectl label --overwrite namespace plinth-system pod-security.kubernetes.io/enforce=privileged"},
	{"port 10258", func(_ *testing.T, o *Objects) {
		p := pod("example.com/acme/exporter:v1")
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 10258}}
		o.DaemonSets = append(o.DaemonSets, daemonSet("acme", "exporter", p))
	}, "PortTaken", "port 10258 of TCP of its machines, which is for the controller"},
	{"port 3784", func(_ *testing.T, o *Objects) {
		p := pod("example.com/acme/bfdd:v1")
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 3784, Protocol: "UDP"}}
		o.Deployments = append(o.Deployments, deployment("acme", "bfdd", p))
	}, "PortTaken", "kubectl -n acme scale deployment bfdd --replicas=0"},
	{"port 179, on which the agent listens", func(_ *testing.T, o *Objects) {
		o.DaemonSets[0].Spec.Template.Spec.Containers[0].Args = []string{"--bgp-port", "179"}
		p := pod("example.com/acme/bird:v1")
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 179}}
		o.DaemonSets = append(o.DaemonSets, daemonSet("acme", "bird", p))
	}, "PortTaken", "BGP, by the agent's --bgp-port"},
	{"no CNI", func(_ *testing.T, o *Objects) {
		o.Nodes[0].Status.Conditions[0] = v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionFalse, Message: "container runtime network not ready: cni plugin not initialized"}
	}, "CNIMissing", "docs/guides/pod-networks.md"},
	{"a kubelet that is silent", func(_ *testing.T, o *Objects) { o.Nodes[0].Status.Conditions[0].Status = v1.ConditionUnknown }, "NodeNotReady", "on w1: systemctl restart kubelet"},
	{"a Node that waits before Plinth is installed", func(_ *testing.T, o *Objects) {
		o.Inventory, o.Leases, o.Deployments, o.DaemonSets = nil, nil, nil, nil
		o.Nodes[0].Spec.ProviderID = ""
		o.taint("node.cloudprovider.kubernetes.io/uninitialized")
	}, "NodeUninitialized", "plinth init"},
	{"a Node that waits though a controller leads", func(_ *testing.T, o *Objects) { o.taint("node.cloudprovider.kubernetes.io/uninitialized") }, "NodeUninitialized", "plinth why node/w1"},
	{"a kubelet of kubeadm without a cloud", func(_ *testing.T, o *Objects) { o.Nodes[0].Spec.ProviderID = "" }, "KubeletWithoutCloud", "--cloud-provider=external /' /var/lib/kubelet/kubeadm-flags.env"},
	{"a kubelet of RKE2 without a cloud", func(_ *testing.T, o *Objects) {
		o.Nodes[0].Spec.ProviderID, o.Nodes[0].Status.NodeInfo.KubeletVersion = "", "v1.36.2+rke2r1"
	}, "KubeletWithoutCloud", "/etc/rancher/rke2/config.yaml.d/plinth-kubelet-arg.yaml"},
	{"a Node of no machine", func(_ *testing.T, o *Objects) {
		o.Nodes = append(o.Nodes, node("w9", "192.168.1.19"))
		o.Nodes[3].Spec.ProviderID = "k3s://w9"
	}, "NoMachine", "plinth import nodes cluster"},
	{"a Node with the ID of another machine", func(_ *testing.T, o *Objects) { o.Nodes[0].Spec.ProviderID = "plinth://SN-1" }, "NoMachine", "plinth why node/w1"},
	{"a provider ID of k3s", func(_ *testing.T, o *Objects) { o.Nodes[0].Spec.ProviderID = "k3s://w1" }, "ProviderIDOfOther", `aliases: ["k3s://w1"]`},
	{"another --node-ip", func(_ *testing.T, o *Objects) {
		o.Nodes[0].Annotations["alpha.kubernetes.io/provided-node-ip"] = "10.0.0.11"
	}, "NodeIPUnknown", "give machine w1 the address 10.0.0.11"},
	{"the taint of a cloud that is gone", func(_ *testing.T, o *Objects) { o.taint("node.cloudprovider.kubernetes.io/shutdown") }, "NodeShutdownTaint", "kubectl taint node w1 node.cloudprovider.kubernetes.io/shutdown-"},
	{"the taint of a machine without power", func(_ *testing.T, o *Objects) { o.taint("node.kubernetes.io/out-of-service") }, "StillOutOfService", "kubectl taint node w1 node.kubernetes.io/out-of-service-"},
	{"a condition of a route controller", func(_ *testing.T, o *Objects) {
		o.Nodes[0].Status.Conditions = append(o.Nodes[0].Status.Conditions, v1.NodeCondition{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionTrue, Reason: "NoRouteCreated"})
	}, "NetworkUnavailable", "kubectl patch node w1 --subresource=status --type=strategic"},
	{"a worker that is excluded", func(_ *testing.T, o *Objects) { o.Nodes[0].Labels[v1.LabelNodeExcludeBalancers] = "true" }, "NodeExcluded", "kubectl label node w1 node.kubernetes.io/exclude-from-external-load-balancers-"},
	{"a control plane that is all there is", func(_ *testing.T, o *Objects) { o.Nodes = o.Nodes[2:] }, "NodeExcluded", "node cp"},
	{"a clock that is ahead", func(_ *testing.T, o *Objects) { o.Leases[1].Spec.RenewTime = renewed(noon.Add(time.Minute)) }, "ClockDiffers", "its clock is 1m0s ahead of the API server's"},
	{"a clock that is behind", func(_ *testing.T, o *Objects) { o.Leases[1].Spec.RenewTime = renewed(noon.Add(-time.Hour)) }, "ClockDiffers", "on w1: timedatectl set-ntp true"},
	{"servicelb", func(_ *testing.T, o *Objects) {
		d := daemonSet("kube-system", "svclb-web-1", pod("rancher/klipper-lb:v0.4"))
		d.Labels = map[string]string{"svccontroller.k3s.cattle.io/svcname": "web", "svccontroller.k3s.cattle.io/svcnamespace": "default"}
		o.DaemonSets = append(o.DaemonSets, d)
	}, "ServiceLBRunning", "kubectl -n kube-system delete daemonset svclb-web-1"},
	{"MetalLB", func(_ *testing.T, o *Objects) {
		o.Deployments = append(o.Deployments, deployment("metallb-system", "controller", pod("quay.io/metallb/controller:v0.16.2")))
	}, "OtherBalancer", "docs/guides/migrate-from-metallb.md"},
	{"kube-vip for Services", func(_ *testing.T, o *Objects) {
		p := pod("ghcr.io/kube-vip/kube-vip:v1.2.3")
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "svc_enable", Value: "true"}}
		o.DaemonSets = append(o.DaemonSets, daemonSet("kube-system", "kube-vip-ds", p))
	}, "OtherBalancer", "it is of kube-vip"},
	{"a pool of Cilium", func(_ *testing.T, o *Objects) {
		o.Custom = append(o.Custom, custom("cilium.io/v2", "CiliumLoadBalancerIPPool", "blue", map[string]any{"blocks": []any{map[string]any{"start": "198.51.100.1", "stop": "198.51.100.7"}}}))
	}, "OtherBalancer", "plinth import cilium cluster), have Plinth take them over"},
	{"a router that MetalLB knows", func(_ *testing.T, o *Objects) {
		o.Custom = append(o.Custom, custom("metallb.io/v1beta2", "BGPPeer", "tor", map[string]any{"peerAddress": "192.168.1.1", "password": "hunter2"}))
	}, "OtherSpeaker", "kubectl -n others delete bgppeers.metallb.io tor"},
	{"a router that kube-router knows", func(_ *testing.T, o *Objects) {
		o.DaemonSets = append(o.DaemonSets, daemonSet("kube-system", "kube-router", pod("docker.io/cloudnativelabs/kube-router:v2", "--peer-router-ips=10.0.0.1,192.168.1.1", "--peer-router-passwords=hunter2")))
	}, "OtherSpeaker", "docs/guides/other-bgp-speakers.md"},
	{"kube-vip that has the address of the API server, too", func(_ *testing.T, o *Objects) {
		p := pod("ghcr.io/kube-vip/kube-vip:v1.2.3")
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "svc_enable", Value: "true"}, {Name: "cp_enable", Value: "true"}}
		o.DaemonSets = append(o.DaemonSets, daemonSet("kube-system", "kube-vip-ds", p))
	}, "OtherBalancer", "kubectl -n kube-system set env daemonset kube-vip-ds svc_enable=false"},
	{"pod CIDRs from two", func(t *testing.T, o *Objects) {
		o.Inventory = with(t, "  podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}\n")
		o.DaemonSets = o.DaemonSets[:1]
	}, "TwoGivePodCIDRs", "--allocate-node-cidrs=false"},
	{"pods that two route", func(t *testing.T, o *Objects) {
		o.Inventory, o.Pods = with(t, "  podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}\n"), nil
		o.DaemonSets[1].Spec.Template.Spec.Containers[0].Image = "ghcr.io/flannel/flannel:v1"
	}, "PodsRoutedTwice", "take podNetwork out of the inventory"},
	{"a Node in a pool", func(_ *testing.T, o *Objects) {
		o.Nodes[0].Status.Addresses = append(o.Nodes[0].Status.Addresses, v1.NodeAddress{Type: v1.NodeExternalIP, Address: "203.0.113.9"})
	}, "NodeInPool", "exclude: [203.0.113.9/32]"},
	{"pods in a pool", func(_ *testing.T, o *Objects) { o.Nodes[0].Spec.PodCIDRs = []string{"203.0.113.64/26"} }, "PodRangeInPool", "pool public has 203.0.113.64/26"},
	{"a pool of Calico's in a pool", func(_ *testing.T, o *Objects) {
		o.Custom = append(o.Custom, custom("crd.projectcalico.org/v1", "IPPool", "default", map[string]any{"cidr": "203.0.0.0/16"}))
	}, "PodRangeInPool", "ippools.crd.projectcalico.org others/default"},
	{"cluster IPs in a pool", func(_ *testing.T, o *Objects) { o.ServiceCIDRs[0].Spec.CIDRs = []string{"203.0.113.0/24"} }, "ServiceRangeInPool", "servicecidr kubernetes"},
	{"an external IP in a pool", func(_ *testing.T, o *Objects) {
		o.Services = append(o.Services, v1.Service{ObjectMeta: meta("default", "old"), Spec: v1.ServiceSpec{ExternalIPs: []string{"192.168.1.201", "198.51.100.7"}}})
	}, "ExternalIPInPool", `kubectl -n default patch service old --type=merge -p '{"spec":{"externalIPs":["198.51.100.7"]}}'`},
	{"a pool of MetalLB's in a pool", func(_ *testing.T, o *Objects) {
		o.Deployments = append(o.Deployments, deployment("metallb-system", "controller", pod("quay.io/metallb/controller:v0.16.2")))
		o.Custom = append(o.Custom, custom("metallb.io/v1beta1", "IPAddressPool", "lan", map[string]any{"addresses": []any{"192.168.1.200 - 192.168.1.201"}}))
	}, "OtherBalancer OtherPoolInPool", "its addresses may be in use"},
	{"an address that a status shows", func(_ *testing.T, o *Objects) { o.Services[0].Status.Conditions = nil }, "StatusNotHeld", `kubectl -n default patch service web --subresource=status --type=merge`},
	{"packets that ip-masq-agent leaves as they are", func(_ *testing.T, o *Objects) {
		o.config("ip-masq-agent", "config", "nonMasqueradeCIDRs: [203.0.113.0/25]\n")
	}, "MasqueradeMeetsPool", "203.0.113.0/25"},
	{"packets that Cilium leaves as they are", func(_ *testing.T, o *Objects) {
		o.ConfigMaps = append(o.ConfigMaps, v1.ConfigMap{ObjectMeta: meta("kube-system", "cilium-config"), Data: map[string]string{"routing-mode": "native", "ipv4-native-routing-cidr": "192.168.0.0/16"}})
	}, "MasqueradeMeetsPool", "pool lan has 192.168.0.0/16"},
	{"a clusterCIDR with machines in it", func(_ *testing.T, o *Objects) { o.proxy("10.244.0.0/16", "192.168.0.0/16") }, "ClusterCIDRTooWide", "covers node"},
	{"ipvs without strictARP", func(_ *testing.T, o *Objects) { o.proxy("mode: nftables", "mode: ipvs\nipvs:\n  strictARP: false") }, "StrictARPOff", "s/strictARP: false/strictARP: true/"},
	{"ipvs that says nothing of it", func(_ *testing.T, o *Objects) { o.proxy("mode: nftables", "mode: ipvs") }, "StrictARPOff", "rollout restart daemonset kube-proxy"},
	{"another mode of kube-proxy", func(_ *testing.T, o *Objects) { o.proxy("mode: nftables", "mode: userspace") }, "ProxyModeUnknown", "userspace"},
	{"health at another port", func(_ *testing.T, o *Objects) { o.proxy(`""`, "0.0.0.0:10300") }, "ProxyHealthElsewhere", "agents ask 127.0.0.1:10256"},
	{"Cilium in the place of kube-proxy", func(_ *testing.T, o *Objects) { o.config("cilium-config", "kube-proxy-replacement", "true") }, "ProxyReplaced", "--proxy-health="},
	{"agents that may not answer on links", func(_ *testing.T, o *Objects) {
		o.DaemonSets[0].Spec.Template.Spec.Containers[0].SecurityContext = nil
	}, "OnLinkOff", "NET_RAW"},
	{"a router that does not answer", func(_ *testing.T, o *Objects) {
		o.says("routes 2/2, sessions 0/2: tor/192.168.1.1 NoAnswer, lacks/192.168.1.2 lacks pod CIDRs; more")
	}, "RouterSilent", "plinth router-config tor cluster"},
	{"a password that is missing", func(_ *testing.T, o *Objects) { o.says("routes 2/2, sessions 0/1: tor/192.168.1.1 PasswordMissing") }, "RouterSilent", "make the Secret"},
	{"a host that has a VIP", func(_ *testing.T, o *Objects) {
		o.says("routes 2/2, sessions 1/1; on link 192.168.1.201 AddressConflict 02:00:00:00:00:aa")
	}, "AddressAnswers", "02:00:00:00:00:aa"},
	{"a VIP that is left on an interface", func(_ *testing.T, o *Objects) {
		o.says("routes 2/2, sessions 1/1; on link 192.168.1.201 AddressOnInterface eth0")
	}, "AddressOnInterface", "docs/guides/migrate-on-link.md, so that connections outlast it; then ip address del 192.168.1.201/32 dev eth0 takes"},
	{"a cable", func(_ *testing.T, o *Objects) { o.says("routes 2/2, sessions 1/1; on link 192.168.1.0/24 NoCarrier") }, "LinkBroken", "on w1: ip -brief link"},
	{"a kernel that forwards nothing", func(_ *testing.T, o *Objects) {
		o.says("routes 2/2, sessions 1/1; kernel settings: net.ipv4.ip_forward is 0 and should be 1, net.ipv4.conf.eth0.rp_filter is 1 and should be 0 or 2, and 2 more")
	}, "KernelSettings KernelSettings", "on w1: sysctl -w net.ipv4.conf.eth0.rp_filter=0\n"},
	{"a kernel that forwards nothing of IPv6 and learns its default route", func(_ *testing.T, o *Objects) {
		o.says("routes 2/2, sessions 1/1; kernel settings: net.ipv6.conf.all.forwarding is 0 and should be 1, net.ipv6.conf.eth0.accept_ra is 1 and should be 2")
	}, "KernelSettings KernelSettings", "all.forwarding is 0 and should be 1\n    on w1: sysctl -w net.ipv6.conf.eth0.accept_ra=2\n"},
	{"a kube-proxy that does not serve", func(_ *testing.T, o *Objects) {
		o.says("routes 2/2, sessions 1/1; ProxyUnhealthy: kube-proxy says that it does not serve")
	}, "ProxyUnhealthy", "plinth explain ProxyUnhealthy"},
	{"rules that are gone", func(_ *testing.T, o *Objects) {
		o.says("routes 2/2, sessions 1/1; ProxyRulesLost: kube-proxy's rules are gone for 3 of 3 VIPs")
	}, "ProxyRulesLost", "kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName=w1"},
	{"a name that a shell would read otherwise", func(_ *testing.T, o *Objects) {
		n := node("w1;reboot", "192.168.1.19")
		n.Labels[v1.LabelNodeExcludeBalancers] = ""
		o.Nodes, o.Inventory = []v1.Node{n, o.Nodes[1]}, nil
	}, "NodeExcluded", "kubectl label node 'w1;reboot' "},

	{"one that is scaled to none", func(_ *testing.T, o *Objects) {
		d, none := deployment("metallb-system", "controller", pod("quay.io/metallb/controller:v0.16.2")), int32(0)
		d.Spec.Replicas = &none
		o.Deployments = append(o.Deployments, d)
	}, "", ""},
	{"one that no Node is selected for", func(_ *testing.T, o *Objects) {
		d := daemonSet("metallb-system", "speaker", pod("quay.io/metallb/speaker:v0.16.2"))
		d.Spec.Template.Spec.NodeSelector = map[string]string{"plinth.dev/stopped": "true"}
		o.DaemonSets = append(o.DaemonSets, d)
	}, "", ""},
	{"a lease that nobody renews", func(_ *testing.T, o *Objects) {
		o.Leases = append(o.Leases, lease("kube-system", "cloud-controller-manager", "cp", "k3s", noon.Add(-time.Minute)))
	}, "", ""},
	{"another balancer beside Plinth's class", func(_ *testing.T, o *Objects) {
		o.Deployments[0].Spec.Template.Spec.Containers[0].Args = append(o.Deployments[0].Spec.Template.Spec.Containers[0].Args, "--load-balancer-class-only")
		o.Deployments = append(o.Deployments, deployment("metallb-system", "controller", pod("quay.io/metallb/controller:v0.16.2")))
	}, "", ""},
	{"kube-vip for the API server alone", func(_ *testing.T, o *Objects) {
		p := pod("ghcr.io/kube-vip/kube-vip:v1.2.3")
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "cp_enable", Value: "true"}}
		o.DaemonSets = append(o.DaemonSets, daemonSet("kube-system", "kube-vip-ds", p))
	}, "", ""},
	{"a CNI that is down on a Node", func(_ *testing.T, o *Objects) {
		o.Nodes[0].Status.Conditions = append(o.Nodes[0].Status.Conditions, v1.NodeCondition{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionTrue, Reason: "CalicoIsDown"})
	}, "", ""},
	{"addresses of a balancer before Plinth leads", func(_ *testing.T, o *Objects) { o.Services[0].Status.Conditions, o.Leases = nil, o.Leases[1:] }, "", ""},
	{"an address of another class", func(_ *testing.T, o *Objects) {
		class := "acme.example/lb"
		o.Services[0].Status.Conditions, o.Services[0].Spec.LoadBalancerClass = nil, &class
	}, "", ""},
	{"nothing but Nodes that are well", func(_ *testing.T, o *Objects) {
		o.Leases, o.ConfigMaps, o.Deployments, o.DaemonSets, o.Services = []coordinationv1.Lease{}, nil, []appsv1.Deployment{}, nil, nil
	}, "", ""},
}
