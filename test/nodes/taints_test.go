package nodes

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plinth.dev/plinth/test/apiserver"
)

const (
	dedicated  = "dedicated=db:NoSchedule"
	quarantine = "quarantine=hacked:NoExecute" // an admin's
)

// dedicatedW1 is an inventory that wants a taint and a label on w1, or the label alone.
func dedicatedW1(taint bool, mark string) string {
	taints := ""
	if taint {
		taints = ", taints: [{key: dedicated, value: db, effect: NoSchedule}]"
	}
	return apiserver.Document("  racks:\n    - {name: r01, machines: [{name: w1, addresses: [10.10.1.11], labels: {example.com/mark: " + mark + "}" + taints + "}]}\n")
}

// kubelet is a client with the rights of a Node's kubelet.
func (c *cluster) kubelet(name string) kubernetes.Interface {
	c.t.Helper()
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + name, Groups: []string{"system:nodes", "system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// quarantined has an admin put a taint on a Node, beside those that are there.
func (c *cluster) quarantined(name string) {
	c.t.Helper()
	c.setTaints(name, append(c.get(name).Spec.Taints, v1.Taint{Key: "quarantine", Value: "hacked", Effect: v1.TaintEffectNoExecute}))
}

func TestKubeletHasNoTaintOfAnAdminTakenAway(t *testing.T) {
	c := newCluster(t, apiserver.Options{Flags: []string{"--enable-admission-plugins=NodeRestriction"}})
	c.start()
	c.edit(dedicatedW1(true, "a"))
	c.register(node{name: "w1"})
	c.until("w1", "is initialised", apiserver.Initialised)
	c.quarantined("w1")
	kubelet := c.kubelet("w1").CoreV1().Nodes()
	write := func(patch string, sub ...string) error {
		_, err := kubelet.Patch(t.Context(), "w1", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "plinth"}, sub...)
		return err
	}
	for _, sub := range [][]string{nil, {"status"}} {
		if err := write(`{"metadata":{"annotations":{"plinth.dev/taints":"`+quarantine+`"}}}`, sub...); err != nil {
			t.Fatal(err) // no policy of deploy/ is here
		}
		for label := range c.get("w1").Labels {
			if !strings.Contains(label, "plinth.node-restriction.kubernetes.io/") {
				continue
			}
			for _, value := range []string{`null`, `"forged"`} {
				if err := write(`{"metadata":{"labels":{"`+label+`":`+value+`}}}`, sub...); !apierrors.IsForbidden(err) {
					t.Errorf("a kubelet sets label %s of the record to %s: %v", label, value, err)
				}
			}
		}
		if err := write(`{"metadata":{"labels":{"taint.plinth.node-restriction.kubernetes.io/0123456789abcdef":"NoExecute"}}}`, sub...); !apierrors.IsForbidden(err) {
			t.Errorf("a kubelet adds to the record: %v", err)
		}
	}
	c.edit(dedicatedW1(true, "b"))
	c.until("w1", "was looked at since", labelled(map[string]string{"example.com/mark": "b"}))
	if err := has(dedicated, quarantine)(c.get("w1")); err != nil {
		t.Error(err)
	}
	c.edit(dedicatedW1(false, "c"))
	c.until("w1", "was looked at since", labelled(map[string]string{"example.com/mark": "c"}))
	if err := hasNot(dedicated)(c.get("w1")); err != nil {
		t.Error(err)
	}
	if err := has(quarantine)(c.get("w1")); err != nil {
		t.Error(err)
	}
}

// TestTaintsThatAnOlderVersionSetAreStillPlinthsToTakeAway has a Node as an older version
// leaves it, whose record was an annotation, and a kubelet that added to it. Meanwhile the
// inventory no longer wants the taint.
func TestTaintsThatAnOlderVersionSetAreStillPlinthsToTakeAway(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	stop := c.start()
	c.edit(dedicatedW1(true, "a"))
	c.register(node{name: "w1"})
	c.until("w1", "is initialised", apiserver.Initialised)
	stop()
	c.quarantined("w1")
	for label := range c.get("w1").Labels {
		if strings.Contains(label, "plinth.node-restriction.kubernetes.io/") {
			c.patch("w1", "", `{"metadata":{"labels":{"`+label+`":null}}}`)
		}
	}
	c.patch("w1", "", `{"metadata":{"annotations":{"plinth.dev/taints":"`+dedicated+","+quarantine+`"}}}`)
	c.edit(dedicatedW1(false, "b"))
	c.start()
	c.until("w1", "was looked at since", labelled(map[string]string{"example.com/mark": "b"}))
	c.until("w1", "has only the admin's taint", hasNot(dedicated))
	if err := has(quarantine)(c.get("w1")); err != nil {
		t.Error(err)
	}
}
