package services

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/apiserver"
)

func TestStatusThatSomebodyOverwroteIsSetRightWithoutAWar(t *testing.T) {
	c := newCluster(t)
	c.pools(onePool)
	c.start()
	c.service("a", bothFamilies)
	c.has("a", "192.0.2.0", "2001:db8:2::")
	c.service("b", class)
	c.has("b", "192.0.2.1")
	c.unannounced("a", "NoMachineKnown") // what is written for that is not counted
	c.unannounced("b", "NoMachineKnown")
	before := c.statusWrites()
	c.says("a", "10.10.1.1")
	c.says("b", "10.10.1.1")
	c.has("a", "192.0.2.0", "2001:db8:2::")
	c.has("b", "192.0.2.1")
	c.told("a", "StatusOverwritten")
	for _, name := range []string{"a", "b"} { // nor is its condition another program's
		patch := []byte(`{"status":{"conditions":null}}`)
		if _, err := c.Client.CoreV1().Services("default").Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		c.allocated(name, "Allocated")
	}
	before += 2
	begun := time.Now()
	for range 30 { // ten a second, for three seconds
		c.says("a", "10.10.1.1")
		<-time.After(100 * time.Millisecond)
	}
	// Each is set right at once; the first again after one second, after two more, then four.
	most := 2
	for pause, passed := time.Second, time.Second; passed <= time.Since(begun); passed += pause {
		most, pause = most+1, 2*pause
	}
	if n := c.statusWrites() - before; n < 2 || n > most {
		t.Errorf("%d writes set two statuses right that were overwritten 32 times, want at most %d", n, most)
	}
}

// statusWrites counts the statuses that the controller manager wrote; a write that
// met a newer version of its Service wrote nothing.
func (c *cluster) statusWrites() (n int) {
	c.t.Helper()
	for _, w := range c.Server.Writes() {
		if w.Agent == apiserver.ControllerName && w.Resource == "services" && w.Subresource == "status" && w.Verb == "patch" && w.Code == http.StatusOK {
			n++
		}
	}
	return n
}

func TestServicesCostFewWritesAndDeletesNoneOfOthers(t *testing.T) {
	c := newCluster(t)
	c.pools(`    - {name: public, addresses: [192.0.2.0/24]}`)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
	node.Status.Conditions = []v1.NodeCondition{{Type: "plinth.dev/FabricReady", Status: v1.ConditionTrue}} // its agent's word
	if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.endpoints("first", "w1") // with an endpoint each is announced: that nobody does is no cost of all Services
	c.service("first")
	c.has("first", "192.0.2.0")
	const n = 100
	for i := range n {
		c.endpoints(fmt.Sprintf("s%d", i), "w1")
	}
	before := c.writes()
	for i := range n {
		c.service(fmt.Sprintf("s%d", i))
	}
	c.Eventually(30*time.Second, "all are served", func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		have := 0
		for i := range list.Items {
			have += len(list.Items[i].Status.LoadBalancer.Ingress)
		}
		if have != n+1 {
			return fmt.Errorf("%d of %d", have, n+1)
		}
		return nil
	})
	c.settled()
	after := c.writes()
	if per := float64(total(after)-total(before)) / n; per > 3.1 { // claim, status, Event
		t.Errorf("%.1f writes a Service: %v", per, after)
	} else {
		t.Logf("%.2f writes a Service: %v", per, after)
	}

	from, own := len(c.Server.Writes()), []string{"s0", "s1"}
	for _, name := range own {
		svc, err := c.Client.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, ingress(svc)...)
	}
	c.remove("s0", "s1")
	c.settled()
	for _, w := range c.Server.Writes()[from:] {
		if (w.Resource == "services" || w.Resource == "ipaddresses") && !slices.Contains(own, w.Name) && w.Agent == "plinth-cloud-controller-manager" {
			t.Errorf("a delete cost a write of another: %+v", w)
		}
	}
	c.sharersComeAndGo(40)
}

// sharersComeAndGo has n Services share a VIP that all come at once, and go at once.
func (c *cluster) sharersComeAndGo(n int) {
	c.t.Helper()
	const vip = "192.0.2.200"
	key, address := annotated("metallb.io/allow-shared-ip", "web"), annotated("plinth.dev/ips", vip)
	from := len(c.Server.Writes())
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("sharer%d", i))
		c.endpoints(names[i], "w1")
		c.service(names[i], key, address, port(int32(1000+i)))
	}
	for _, name := range names {
		c.has(name, vip)
	}
	c.remove(names...)
	for _, name := range names {
		c.gone(name)
	}
	c.free(vip)
	c.settled()
	writes := 0
	for _, w := range c.Server.Writes()[from:] {
		if w.Agent == apiserver.ControllerName && w.Resource == "ipaddresses" {
			writes++
		}
	}
	if most := 2*n + 1; writes > most { // the first creates it, the last leaves it to be deleted
		c.t.Errorf("%d writes to the object of a VIP that %d Services shared, at most %d were needed", writes, n, most)
	}
	events, err := c.Client.CoreV1().Events("default").List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Reason == "SyncLoadBalancerFailed" {
			c.t.Errorf("service %s: %s", e.InvolvedObject.Name, e.Message)
		}
	}
}

// settled waits until nothing has been written for two seconds.
func (c *cluster) settled() {
	c.t.Helper()
	last, since := -1, time.Now()
	c.Eventually(time.Minute, "nothing more is written", func(context.Context) error {
		if n := len(c.Server.Writes()); n != last {
			last, since = n, time.Now()
		}
		if quiet := time.Since(since); quiet < 2*time.Second {
			return fmt.Errorf("%d writes, quiet for %v", last, quiet)
		}
		return nil
	})
}
