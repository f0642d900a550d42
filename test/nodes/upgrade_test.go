//go:build slow

package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// TestInstallationOfVersion01IsTakenOver has in the API server what version 0.1 wrote there:
// three generations of an inventory from which machine gone has been dropped, the Nodes with
// their pod CIDRs, a Service with its VIP, and the address of one that is gone and rests.
func TestInstallationOfVersion01IsTakenOver(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	for _, kind := range []string{"services", "nodes"} {
		c.version01("create", kind, nil)
		c.version01("apply --server-side --force-conflicts --subresource=status", kind, nil)
	}
	web, err := c.Client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	replaced := strings.NewReplacer("SERVICE-UID", string(web.UID), "UNTIL", time.Now().Add(9*time.Minute).UTC().Format(time.RFC3339))
	c.version01("create", "ipaddresses", replaced)
	c.version01("create", "configmaps", replaced)
	was := c.accepted()
	podCIDRs := map[string]string{"w1": "10.42.0.0/24", "w2": "10.42.1.0/24", "w3": "10.42.16.0/24", "gone": "10.42.17.0/24"}

	c.start()
	c.Eventually(20*time.Second, "the slices have the names of their generations", func(context.Context) error {
		is := c.accepted()
		for now, before := range map[string]string{"plinth-accepted.r01.3": "plinth-accepted-r01", "plinth-accepted.r02.2": "plinth-accepted-r02"} {
			if is[now] == nil || is[now].Data["inventory.yaml"] != was[before].Data["inventory.yaml"] {
				return fmt.Errorf("configmap %s is %v", now, is[now])
			}
		}
		return nil
	})
	c.Quiet(apiserver.ControllerName, 0)
	for name, before := range was {
		if now := c.accepted()[name]; now == nil || now.ResourceVersion != before.ResourceVersion {
			t.Errorf("configmap %s was written: it is %v", name, now)
		}
	}

	t.Log("a machine more, on the rack of the one that is held")
	c.edit(apiserver.Document(`  podNetwork: {mode: direct, cidrs: [10.42.0.0/16]}
  pools: [{name: public, addresses: [203.0.113.0/28]}]
  racks:
    - {name: r01, machines: [{name: w1, addresses: [10.10.1.11]}, {name: w2, addresses: [10.10.1.12], labels: {example.com/n: "3"}}]}
    - {name: r02, machines: [{name: w3, addresses: [10.10.2.13]}, {name: w4, addresses: [10.10.2.15]}]}
`))
	c.AwaitStatus("generation", "4")
	c.register(node{name: "w4"})
	c.until("w4", "is initialised", apiserver.Initialised)
	podCIDRs["w4"] = "10.42.18.0/24"
	c.Kubectl("create", "service", "loadbalancer", "new", "--tcp=80")
	if ip := c.vip("new"); ip != "203.0.113.2" {
		t.Errorf("a new Service has %s, want 203.0.113.2: .0 is another's and .1 rests", ip)
	}
	if ip := c.vip("web"); ip != "203.0.113.0" {
		t.Errorf("the VIP of web is now %s", ip)
	}
	c.patch("gone", "status", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	c.stays(outlives, "gone")
	for name, want := range podCIDRs {
		c.until(name, "has its pod CIDR", func(n *v1.Node) error {
			if n.Spec.PodCIDR != want {
				return fmt.Errorf("it is %q, want %s", n.Spec.PodCIDR, want)
			}
			return nil
		})
	}

	c.Quiet(apiserver.ControllerName, 0)
	now := c.accepted()
	if racks := now["plinth-accepted"].Data["racks"]; racks != "r01 3\nr02 4\n" {
		t.Errorf("listed are %q", racks)
	}
	for rack, n := range map[string]string{"r01": "3", "r02": "4"} { // as an agent of version 0.1 takes them
		slice := now["plinth-accepted-"+rack]
		if slice.Annotations["plinth.dev/generation"] != n || slice.Data["inventory.yaml"] != now["plinth-accepted."+rack+"."+n].Data["inventory.yaml"] {
			t.Errorf("what version 0.1 reads of rack %s is %v", rack, slice)
		}
	}
}

// version01 has kubectl write what version 0.1 left of a kind.
func (c *cluster) version01(verb, kind string, replaced *strings.Replacer) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "version-0.1", kind+".yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	if replaced != nil {
		text = []byte(replaced.Replace(string(text)))
	}
	file := filepath.Join(c.files(map[string]string{kind + ".yaml": string(text)}), kind+".yaml")
	c.Kubectl(append(strings.Fields(verb), "-f", file)...)
}
