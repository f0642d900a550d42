package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

const onLinkInventory = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 64514}
  routers: [{name: tor, address: 192.168.1.1, asn: 64513}]
  racks:
    - name: shelf
      subnets: [192.168.1.0/24]
      machines:
        - {name: w1, addresses: [192.168.1.11]}
        - {name: w2, addresses: [192.168.1.12]}
        - {name: cp, addresses: [192.168.1.10]}
  pools:
    - {name: lan, addresses: [192.168.1.200-192.168.1.219], advertise: {via: link}}
    - {name: public, addresses: [203.0.113.0/24]}
`

// with is the inventory with some more lines below spec.
func with(t testing.TB, lines string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Parse(document.Document{Source: "inventory.yaml", Data: []byte(onLinkInventory + lines)})
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	return inv
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func node(name, address string) v1.Node {
	n := v1.Node{ObjectMeta: meta("", name)}
	n.Labels = map[string]string{"kubernetes.io/os": "linux"}
	n.Annotations = map[string]string{"alpha.kubernetes.io/provided-node-ip": address}
	n.Spec.ProviderID, n.Spec.PodCIDRs = "plinth://"+name, []string{"10.244." + address[strings.LastIndex(address, ".")+1:] + ".0/24"}
	n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OperatingSystem = "v1.36.2", "linux"
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}, {Type: v1.NodeHostName, Address: name}}
	n.Status.Conditions = []v1.NodeCondition{
		{Type: v1.NodeReady, Status: v1.ConditionTrue},
		{Type: "plinth.dev/FabricReady", Status: v1.ConditionTrue, Reason: "AsPlanned", Message: "routes 2/2, sessions 1/1"},
	}
	return n
}

func renewed(at time.Time) *metav1.MicroTime { return &metav1.MicroTime{Time: at} }

func lease(namespace, name, holder, program string, at time.Time) coordinationv1.Lease {
	seconds := int32(15)
	l := coordinationv1.Lease{ObjectMeta: meta(namespace, name)}
	l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: renewed(at), LeaseDurationSeconds: &seconds}
	l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: program, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:holderIdentity":{}}}`)}}
	return l
}

// pod is the template of a workload on the host's network.
func pod(image string, args ...string) v1.PodTemplateSpec {
	return v1.PodTemplateSpec{Spec: v1.PodSpec{HostNetwork: true, Containers: []v1.Container{{Name: "main", Image: image, Args: args}}}}
}

func daemonSet(namespace, name string, template v1.PodTemplateSpec) appsv1.DaemonSet {
	return appsv1.DaemonSet{ObjectMeta: meta(namespace, name), Spec: appsv1.DaemonSetSpec{Template: template}}
}

func deployment(namespace, name string, template v1.PodTemplateSpec) appsv1.Deployment {
	return appsv1.Deployment{ObjectMeta: meta(namespace, name), Spec: appsv1.DeploymentSpec{Template: template}}
}

const proxyConfig = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: 10.244.0.0/16\nhealthzBindAddress: \"\"\nmode: nftables\n"

// healthy is the smallest cluster that has all that checks look at, and in which nothing stands in the way.
func healthy(t testing.TB) *Objects {
	t.Helper()
	agent := pod("registry.example.com/plinth/plinth-agent:v0.1.0", "--listen=127.0.0.1:10268")
	agent.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN", "NET_RAW"}}}
	controller := pod("registry.example.com/plinth/plinth-cloud-controller-manager:v0.1.0", "--secure-port=10258")
	controller.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 10258, HostPort: 10258}}
	cp := node("cp", "192.168.1.10")
	cp.Labels["node-role.kubernetes.io/control-plane"], cp.Labels["node.kubernetes.io/exclude-from-external-load-balancers"] = "", ""
	kcm := v1.Pod{ObjectMeta: meta("kube-system", "kube-controller-manager-cp"), Spec: pod("registry.k8s.io/kube-controller-manager:v1.36.2", "--allocate-node-cidrs=true").Spec}
	kcm.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
	web := v1.Service{ObjectMeta: meta("default", "web"), Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer}}
	web.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "203.0.113.1"}}
	web.Status.Conditions = []metav1.Condition{{Type: "plinth.dev/VIPAllocated", Status: metav1.ConditionTrue}}
	o := &Objects{
		Server: "v1.36.2", Now: noon, Namespace: "plinth-system", Inventory: with(t, ""),
		Namespaces:  []v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "plinth-system", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}}},
		Nodes:       []v1.Node{node("w1", "192.168.1.11"), node("w2", "192.168.1.12"), cp},
		Pods:        []v1.Pod{kcm},
		DaemonSets:  []appsv1.DaemonSet{daemonSet("plinth-system", "plinth-agent", agent), daemonSet("kube-flannel", "kube-flannel-ds", pod("ghcr.io/flannel-io/flannel:v0.27"))},
		Deployments: []appsv1.Deployment{deployment("plinth-system", "plinth-cloud-controller-manager", controller)},
		ConfigMaps: []v1.ConfigMap{{ObjectMeta: meta("kube-system", "kube-proxy"), Data: map[string]string{"config.conf": proxyConfig}},
			{ObjectMeta: meta("kube-flannel", "kube-flannel-cfg"), Data: map[string]string{"net-conf.json": `{"Network": "10.244.0.0/16"}`}}},
		Leases: []coordinationv1.Lease{
			lease("plinth-system", "cloud-controller-manager", "cp_1", "plinth-cloud-controller-manager", noon.Add(-time.Second)),
			lease("kube-node-lease", "w1", "w1", "kubelet", noon.Add(-9*time.Second)), lease("kube-node-lease", "w2", "w2", "kubelet", noon),
		},
		Services:     []v1.Service{web},
		ServiceCIDRs: []networkingv1.ServiceCIDR{{ObjectMeta: meta("", "kubernetes"), Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}},
	}
	return o
}

func (o *Objects) config(name, key, value string) {
	o.ConfigMaps = append(o.ConfigMaps, v1.ConfigMap{ObjectMeta: meta("kube-system", name), Data: map[string]string{key: value}})
}

// proxy changes kube-proxy's configuration.
func (o *Objects) proxy(from, to string) {
	o.ConfigMaps[0].Data["config.conf"] = strings.Replace(o.ConfigMaps[0].Data["config.conf"], from, to, 1)
}

// says has the agent of the first Node say something.
func (o *Objects) says(message string) { o.Nodes[0].Status.Conditions[1].Message = message }

func (o *Objects) taint(key string) {
	o.Nodes[0].Spec.Taints = append(o.Nodes[0].Spec.Taints, v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule})
}

func custom(apiVersion, kind, name string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "namespace": "others"}, "spec": spec}
}

func kindsOf(all []Finding) (kinds []string) {
	for _, f := range all {
		kinds = append(kinds, string(f.Kind))
	}
	return kinds
}

func printed(all []Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Kind, f.Object, f.Message)
		for _, m := range f.Mend {
			fmt.Fprintf(&b, "    %s\n", m)
		}
	}
	return b.String()
}

func TestNothingIsFoundInAHealthyCluster(t *testing.T) {
	if found := Examine(Read(*healthy(t))); len(found) > 0 {
		t.Error(printed(found))
	}
	if found := Examine(Cluster{}); len(found) > 0 {
		t.Errorf("in one of which nothing is known: %s", printed(found))
	}
}

func TestEachTroubleIsFound(t *testing.T) {
	told := map[Kind]bool{}
	for _, trouble := range troubles {
		o := healthy(t)
		trouble.make(t, o)
		found := Examine(Read(*o))
		if got := strings.Join(kindsOf(found), " "); got != trouble.want {
			t.Errorf("%s: found %q, want %q\n%s", trouble.name, got, trouble.want, printed(found))
			continue
		}
		for _, f := range found {
			told[f.Kind] = true
			if f.Object == "" || f.Message == "" || len(f.Mend) == 0 || slices.ContainsFunc(f.Mend, func(m Mend) bool { return m.Run == "" == (m.Say == "") }) {
				t.Errorf("%s: %+v", trouble.name, f)
			}
		}
		if !strings.Contains(printed(found), trouble.says) {
			t.Errorf("%s: it does not say %q:\n%s", trouble.name, trouble.says, printed(found))
		}
	}
	for _, c := range checks {
		if !told[c.kind] {
			t.Errorf("%s: no trouble of the table has it", c.kind)
		}
	}
}
