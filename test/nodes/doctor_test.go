package nodes

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

const doctorInventory = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 64514}
  routers: [{name: tor, address: 192.168.1.1, asn: 64513}]
  racks:
    - {name: shelf, subnets: [192.168.1.0/24], machines: [{name: w1, addresses: [192.168.1.11]}, {name: w2, addresses: [192.168.1.12]}]}
  pools:
    - {name: lan, addresses: [192.168.1.200-192.168.1.219], advertise: {via: link}}
    - {name: public, addresses: [203.0.113.0/24]}
`

// healthyObjects are Plinth's agents and kube-proxy, as they should be.
const healthyObjects = `kubectl apply -f - <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-proxy, namespace: kube-system}
data:
  config.conf: |
    apiVersion: kubeproxy.config.k8s.io/v1alpha1
    clusterCIDR: 10.244.0.0/16
    healthzBindAddress: ""
    mode: nftables
    ipvs:
      strictARP: false
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-proxy, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: kube-proxy}}
  template:
    metadata: {labels: {k8s-app: kube-proxy}}
    spec: {hostNetwork: true, containers: [{name: p, image: registry.k8s.io/kube-proxy:v1}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: plinth-agent, namespace: kube-system}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {hostNetwork: true, containers: [{name: agent, image: example.com/plinth/plinth-agent:v1, args: [--listen=127.0.0.1:10268], securityContext: {capabilities: {add: [NET_ADMIN, NET_RAW]}}}]}
END
`

// patchProxy changes a line of kube-proxy's configuration.
func patchProxy(from, to string) string {
	return `kubectl -n kube-system get configmap kube-proxy -o yaml | sed -e 's/` + from + `/` + to + `/' | kubectl apply -f -`
}

// otherDaemonSet is one on the host's network, of an image, with a port.
func otherDaemonSet(name, image, rest string) string {
	return `kubectl apply -f - <<END
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: ` + name + `, namespace: kube-system, labels: {` + rest + `}}
spec:
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: {labels: {app: ` + name + `}}
    spec: {hostNetwork: true, containers: [{name: c, image: ` + image + `, ports: [{containerPort: 10268}]}]}
END
`
}

const metalLBPeer = `kubectl apply -f - <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bgppeers.metallb.io}
spec:
  group: metallb.io
  scope: Namespaced
  names: {kind: BGPPeer, plural: bgppeers, singular: bgppeer}
  versions: [{name: v1beta2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
END
kubectl wait --for=condition=Established --timeout=30s crd/bgppeers.metallb.io
until kubectl apply -f - <<END
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: tor, namespace: kube-system}
spec: {peerAddress: 192.168.1.1, password: hunter2}
END
do :; done
`

// TestWhatStandsInTheWayIsFoundAndMended provokes troubles one after the other, runs the commands that plinth doctor prints, and has it look
// again.
func TestWhatStandsInTheWayIsFoundAndMended(t *testing.T) {
	program := plinth(t)
	c := newCluster(t, apiserver.Options{})
	folder := t.TempDir()
	file := filepath.Join(folder, "inventory.yaml")
	if err := os.WriteFile(file, []byte(doctorInventory), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{"w1": "192.168.1.11", "w2": "192.168.1.12"} {
		c.register(node{name: name, adopted: true, providerID: "plinth://" + name, nodeIPs: address})
		c.setAddresses(name, v1.NodeAddress{Type: v1.NodeInternalIP, Address: address})
	}
	c.Shell(folder, healthyObjects)
	well := func(after string) {
		t.Helper()
		if code, out := c.ask(program, "doctor", file); code != 0 || !strings.Contains(out, "Nothing stands in the way.") {
			t.Fatalf("%s: it ends with %d:\n%s", after, code, out)
		}
	}
	well("in a healthy cluster")
	bundle := filepath.Join(folder, "bundle.yaml")
	var restarted time.Time
	for _, trouble := range []struct{ kind, line, byHand string }{
		{kind: "NodeExcluded", line: "kubectl label node w1 node.kubernetes.io/exclude-from-external-load-balancers="},
		{kind: "NodeShutdownTaint", line: "kubectl taint node w1 node.cloudprovider.kubernetes.io/shutdown=:NoSchedule"},
		{kind: "StillOutOfService", line: "kubectl taint node w1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"},
		{kind: "NetworkUnavailable", line: `kubectl patch node w1 --subresource=status --type=strategic -p '{"status":{"conditions":[{"type":"NetworkUnavailable","status":"True","reason":"NoRouteCreated"}]}}'`},
		{kind: "PodSecurityForbids", line: "kubectl label namespace kube-system pod-security.kubernetes.io/enforce=baseline"},
		{kind: "OtherCloudController", line: "kubectl -n kube-system create deployment ccm --image=docker.io/hetznercloud/hcloud-cloud-controller-manager:v1"},
		{kind: "OtherBalancer", line: "kubectl create namespace metallb-system; kubectl -n metallb-system create deployment controller --image=quay.io/metallb/controller:v0.16.2"},
		{kind: "OtherBalancer", line: otherDaemonSet("speaker", "quay.io/metallb/speaker:v0.16.2", "")},
		{kind: "PortTaken", line: otherDaemonSet("exporter", "example.com/exporter:v1", "")},
		{kind: "ServiceLBRunning", line: otherDaemonSet("svclb-web", "rancher/klipper-lb:v1", "svccontroller.k3s.cattle.io/svcname: web, svccontroller.k3s.cattle.io/svcnamespace: default") + "kubectl -n kube-system patch daemonset svclb-web --type=json -p '[{\"op\":\"remove\",\"path\":\"/spec/template/spec/containers/0/ports\"}]'"},
		{kind: "OtherSpeaker", line: metalLBPeer},
		{kind: "ExternalIPInPool", line: `kubectl create service clusterip old --tcp=80; kubectl patch service old --type=merge -p '{"spec":{"externalIPs":["192.168.1.201"]}}'`},
		{kind: "StatusNotHeld", line: leadingController + `kubectl create service loadbalancer left --tcp=80; kubectl patch service left --subresource=status --type=merge -p '{"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.7"}]}}}'`},
		{kind: "StrictARPOff", line: patchProxy("mode: nftables", "mode: ipvs")},
		{kind: "OnLinkOff", line: `kubectl -n kube-system patch daemonset plinth-agent --type=json -p '[{"op":"remove","path":"/spec/template/spec/containers/0/securityContext/capabilities/add/1"}]'`},
		{kind: "ProxyModeUnknown", line: patchProxy("mode: ipvs", "mode: userspace")},
		{kind: "ServiceRangeInPool", line: `kubectl create -f - <<END
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: more}
spec: {cidrs: [203.0.113.0/28]}
END`, byHand: "kubectl delete servicecidr more"},
		{kind: "MasqueradeMeetsPool", line: "kubectl -n kube-system create configmap ip-masq-agent --from-literal='config=nonMasqueradeCIDRs: [203.0.113.0/24]'", byHand: "kubectl -n kube-system delete configmap ip-masq-agent"},
		{kind: "ProxyHealthElsewhere", line: patchProxy(`healthzBindAddress: ""`, `healthzBindAddress: 0.0.0.0:10300`)},
		{kind: "NoMachine", line: `kubectl create -f - <<END
apiVersion: v1
kind: Node
metadata: {name: w9}
spec: {providerID: acme://w9}
END
kubectl patch node w9 --subresource=status --type=merge -p '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'`, byHand: "kubectl delete node w9"},
		{kind: "RouterSilent", line: fabricSays("routes 1/1, sessions 0/1: tor/192.168.1.1 NoAnswer"), byHand: fabricSays("routes 1/1, sessions 1/1")},
		{kind: "ClusterCIDRTooWide", line: patchProxy(`10.244.0.0\/16`, `192.168.0.0\/16`)},
		{kind: "AddressAnswers", line: fabricSays("routes 1/1, sessions 1/1; on link 192.168.1.201 AddressConflict 02:00:00:00:00:aa"), byHand: fabricSays("routes 1/1, sessions 1/1")},
		{kind: "KernelSettings", line: fabricSays("routes 1/1, sessions 1/1; kernel settings: net.ipv4.ip_forward is 0 and should be 1"), byHand: fabricSays("routes 1/1, sessions 1/1")},
		{kind: "ProxyUnhealthy", line: fabricSays("routes 1/1, sessions 1/1; ProxyUnhealthy: kube-proxy says that it does not serve"), byHand: fabricSays("routes 1/1, sessions 1/1")},
		{kind: "ProxyReplaced", line: "kubectl -n kube-system create configmap cilium-config --from-literal=kube-proxy-replacement=true"},
	} {
		c.Shell(folder, trouble.line)
		code, out := c.ask(program, "doctor", file, "-o", "json", "--save-bundle", bundle)
		var said struct {
			Findings []struct {
				Kind string
				Mend []struct{ On, Run string }
			}
		}
		if err := json.Unmarshal([]byte(out), &said); err != nil || code != 1 || len(said.Findings) != 1 || said.Findings[0].Kind != trouble.kind {
			t.Fatalf("%s: it ends with %d, %v:\n%s", trouble.kind, code, err, out)
		}
		if code, again := c.ask(program, "doctor", "-o", "json", "--bundle", bundle); code != 1 || again != out {
			t.Errorf("%s: of the bundle it ends with %d:\n%s\nof the cluster\n%s", trouble.kind, code, again, out)
		}
		if text, err := os.ReadFile(bundle); err != nil || strings.Contains(string(text), "hunter2") {
			t.Errorf("%s: the bundle has a password, or is not there: %v", trouble.kind, err)
		}
		ran := 0
		for _, m := range said.Findings[0].Mend {
			if m.On == "" && strings.HasPrefix(m.Run, "kubectl ") {
				if strings.Contains(m.Run, "rollout restart") {
					time.Sleep(time.Until(restarted.Truncate(time.Second).Add(time.Second))) // kubectl restarts nothing twice in a second of the clock
				}
				c.Shell(folder, m.Run)
				if ran++; strings.Contains(m.Run, "rollout restart") {
					restarted = time.Now()
				}
			}
		}
		if ran == 0 == (trouble.byHand == "") {
			t.Errorf("%s: %d commands mend it, by hand: %q", trouble.kind, ran, trouble.byHand)
		}
		c.Shell(folder, "true; "+trouble.byHand)
		well("after " + trouble.kind + " was mended")
	}
}

// leadingController is a lease that a controller of Plinth's renews.
const leadingController = `kubectl apply --server-side --field-manager=plinth-cloud-controller-manager -f - <<END
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: cloud-controller-manager, namespace: kube-system}
spec: {holderIdentity: w1, leaseDurationSeconds: 3600, renewTime: "$(date -u +%Y-%m-%dT%H:%M:%S.000000Z)"}
END
`

// fabricSays is the condition that an agent writes.
func fabricSays(message string) string {
	return `kubectl patch node w1 --subresource=status --type=strategic -p '{"status":{"conditions":[{"type":"plinth.dev/FabricReady","status":"True","reason":"AsPlanned","message":"` + message + `"}]}}'`
}

// TestWhatMayNotBeReadIsNotTakenForHealthy asks as an account without a right.
func TestWhatMayNotBeReadIsNotTakenForHealthy(t *testing.T) {
	program := plinth(t)
	c := newCluster(t, apiserver.Options{})
	if _, err := c.Client.CoreV1().ServiceAccounts("default").Create(t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Kubeconfig = c.WriteKubeconfig("nobody", c.AccountTokenIn("default", "nobody"))
	if code, out := c.ask(program, "doctor"); code != 2 || !strings.Contains(out, "Not known: Nodes: ") || !strings.Contains(out, "Not known: Services: ") || !strings.Contains(out, "in what could be looked at") {
		t.Errorf("it ends with %d:\n%s", code, out)
	}
}
