package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/guide"
)

// shelf is an inventory of three machines with a pool on their link.
var shelf = apiserver.Document(`
  racks:
    - name: shelf
      subnets: [10.10.1.0/24]
      machines: [{name: w1, addresses: [10.10.1.11]}, {name: w2, addresses: [10.10.1.12]}, {name: w3, addresses: [10.10.1.13]}]
  pools: [{name: home, addresses: [10.10.1.192/27], advertise: {via: link}}]
`)

// TestAReleasedVIPMovesNoOtherOnTheLink gives VIPs on a link while the objects of released ones are still there:
// which machine answers for a VIP is chosen as if they were gone, or it would move once they are.
func TestAReleasedVIPMovesNoOtherOnTheLink(t *testing.T) {
	c := newCluster(t)
	c.EditInventory(shelf, nil)
	c.start()
	homes, made := map[string]string{}, 0
	begin := func(n int) {
		t.Helper()
		for range n {
			made++
			name := fmt.Sprintf("s%d", made)
			c.service(name)
			homes[name] = c.firstHome(name)
		}
	}
	begin(6)
	for _, full := range []string{"w1", "w2", "w3"} { // each of the others loses one
		left := map[string]bool{full: true}
		for name, home := range homes {
			if !left[home] { // the object of the first goes at once, that of the second two seconds later
				left[home] = true
				delete(homes, name)
				c.remove(name)
				c.gone(name)
			}
		}
		begin(2)
		c.Eventually(30*time.Second, "the objects of released VIPs are gone", func(context.Context) error {
			if claims := c.claims(); len(claims) != len(homes) {
				return fmt.Errorf("there are %v", claims)
			}
			return nil
		})
		time.Sleep(2 * time.Second) // homes are looked at twice a second
		count := map[string]int{}
		for name, home := range homes {
			if now := c.firstHome(name); now != home {
				t.Errorf("the VIP of %s has moved from %s to %s", name, home, now)
			}
			count[home]++
		}
		if count["w1"] != 2 || count["w2"] != 2 || count["w3"] != 2 {
			t.Fatalf("VIPs by machine: %v", count)
		}
	}
}

// TestAServiceOfServicelbGetsAVIPOfThePool follows docs/guides/migrate-on-link.md from k3s' servicelb: it is away, and the
// Service's status still has the addresses of Nodes, which are no VIPs.
func TestAServiceOfServicelbGetsAVIPOfThePool(t *testing.T) {
	c := newCluster(t)
	c.EditInventory(shelf, nil)
	c.service("web")
	c.says("web", "10.10.1.11", "10.10.1.12")
	page, err := guide.Read("../..", "migrate-on-link.md")
	section, err2 := guide.Section(page, "From k3s' servicelb")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	applied := false
	for _, line := range guide.Lines(section) {
		if strings.HasPrefix(line, "kubectl apply -k ") { // which starts Plinth
			c.start()
			applied = true
			continue
		}
		if out := c.Shell(t.TempDir(), line); out != "" && !strings.HasPrefix(out, "No resources found") {
			t.Errorf("%s lists\n%s", line, out)
		}
	}
	if !applied {
		t.Fatal("the guide has Plinth applied nowhere")
	}
	c.has("web", "10.10.1.192")
	if home := c.firstHome("web"); !slices.Contains([]string{"w1", "w2", "w3"}, home) {
		t.Errorf("%q is to answer for it", home)
	}
}

// firstHome waits until a Service has a VIP, and returns the machine that is to answer for it.
func (c *cluster) firstHome(name string) (machine string) {
	c.t.Helper()
	c.Eventually(20*time.Second, "service "+name+" has a VIP", func(ctx context.Context) error {
		svc, err := c.Client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		vips := ingress(svc)
		if len(vips) != 1 {
			return fmt.Errorf("its status has %v", vips)
		}
		machine, _, _ = strings.Cut(c.claim(vips[0]).Annotations[lb.HomesAnnotation], ",")
		return nil
	})
	return machine
}
