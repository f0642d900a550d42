package fleet

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/test/apiserver"
)

const namespace = "default" // of the Services

// rackSize is how many machines a rack has, rounded up.
func rackSize() int { return (*nodes + *racks - 1) / *racks }

// inventoryOf is the inventory whose VIPs have a community with a number, by which those who have it in force are told.
func inventoryOf(edit int) string {
	var b strings.Builder
	b.WriteString("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
		"  routers: [{name: tor, address: 192.168.255.1, asn: 65101}]\n")
	if *mode != "none" {
		fmt.Fprintf(&b, "  podNetwork: {mode: %s, cidrs: [10.128.0.0/9, \"fd00:244::/48\"], rackPrefix: {ipv4: 18, ipv6: 56}}\n", *mode)
	}
	fmt.Fprintf(&b, "  pools: [{name: public, addresses: [10.99.0.0/16], advertise: {communities: [%q]}}]\n  racks:\n", mark(edit))
	for i := range *nodes {
		rack, unit := i/rackSize(), i%rackSize()
		if unit == 0 {
			fmt.Fprintf(&b, "    - name: r%03d\n      subnets: [172.16.%d.0/24, \"2001:db8:0:%x::/64\"]\n      machines:\n", rack, rack, rack)
		}
		fmt.Fprintf(&b, "        - {name: %s, addresses: [172.16.%d.%d, \"2001:db8:0:%x::%x\"]}\n", apiserver.MachineName(i), rack, unit+11, rack, unit+11)
	}
	return b.String()
}

// mark is what agents print of an edit.
func mark(edit int) string { return fmt.Sprintf("65010:%d", edit) }

// nodeObject is a Node as a kubelet registers it, with as many images as it reports. Its agent has acknowledged its network.
func nodeObject(i int) *corev1.Node {
	name := apiserver.MachineName(i)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
	}}
	n.Spec.Taints = []corev1.Taint{apiserver.Uninitialized()}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	n.Status.Conditions = append(kubeletConditions(), corev1.NodeCondition{Type: "plinth.dev/FabricReady", Status: corev1.ConditionTrue, Reason: "AsPlanned"})
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.37.1", OSImage: "Debian GNU/Linux 13 (trixie)", KernelVersion: "6.12.0", ContainerRuntimeVersion: "containerd://2.2.0", OperatingSystem: "linux", Architecture: "amd64"}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110")}
	n.Status.Allocatable = n.Status.Capacity
	for image := range 50 {
		name := fmt.Sprintf("registry.example.com/an-organisation/with-a-team/of-its-own/and-a-rather-long-name/of-an-image-%d", image)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("%s@sha256:%064d", name, image), name + ":v1"}, SizeBytes: 1 << 27})
	}
	return n
}

// kubeletConditions are the conditions that a kubelet writes with each of its reports.
func kubeletConditions() (all []corev1.NodeCondition) {
	all = append(all, apiserver.Ready(true))
	for _, of := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		all = append(all, corev1.NodeCondition{Type: of, Status: corev1.ConditionFalse, Reason: "KubeletHasEnough", LastHeartbeatTime: metav1.Now()})
	}
	return all
}

func serviceName(i int) string { return fmt.Sprintf("svc-%05d", i) }

// serviceObject is a load balancer without node ports, of which a cluster has fewer than we have Services.
func serviceObject(name string) *corev1.Service {
	off := false
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name, "app.kubernetes.io/managed-by": "Helm"}}}
	svc.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: &off, Selector: map[string]string{"app": name},
		Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "https", Port: 443}},
	}
	return svc
}

// sliceObject has the endpoints of a Service, each on another machine.
func sliceObject(i int) *discoveryv1.EndpointSlice {
	name, port := serviceName(i), int32(8080)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
	}
	each := *endpoints / *services
	for e := range each {
		slice.Endpoints = append(slice.Endpoints, endpointObject(i*each+e, true))
	}
	return slice
}

// endpointObject is the endpoint of a number, on the machine that it falls to.
func endpointObject(number int, ready bool) discoveryv1.Endpoint {
	on, pod, gone := apiserver.MachineName(number%*nodes), fmt.Sprintf("pod-%06d", number), false
	address := netip.AddrFrom4([4]byte{10, 128 | byte(number>>16), byte(number >> 8), byte(number)})
	return discoveryv1.Endpoint{
		Addresses: []string{address.String()}, NodeName: &on, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: &gone},
	}
}

func TestTheInventoryHasAllMachinesAndEachEditChangesIt(t *testing.T) {
	var before *inventory.Inventory
	for edit := range 2 {
		text := inventoryOf(edit + 1)
		if len(text) > 1_000_000 {
			t.Errorf("it has %d bytes, which no ConfigMap takes", len(text))
		}
		inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(text)})
		if inv == nil {
			t.Fatal(problems)
		}
		if inv.Size() != *nodes || len(inv.Racks) != *racks || document.Equal(inv, before) {
			t.Errorf("it has %d machines in %d racks, or is the one before", inv.Size(), len(inv.Racks))
		}
		before = inv
	}
}

func TestANodeHasTheSizeThatKubeletsMakeIt(t *testing.T) {
	if size := nodeObject(1).Size(); size < 12_000 || size > 18_000 {
		t.Errorf("it has %d bytes, want about 15,000", size)
	}
}

func TestASliceHasItsShareOfTheEndpoints(t *testing.T) {
	seen := map[string]bool{}
	for i := range 100 {
		for _, e := range sliceObject(i).Endpoints {
			seen[e.Addresses[0]] = true
		}
	}
	if want := 100 * *endpoints / *services; len(seen) != want {
		t.Errorf("100 Services have %d addresses, want %d", len(seen), want)
	}
}
