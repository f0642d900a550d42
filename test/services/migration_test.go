package services

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/guide"
)

// wayBack is the title of the section of the guide that undoes the others.
const wayBack = "\n## The way back\n"

// commands returns the lines of a guide that are to be typed, and those of its way back.
func commands(t *testing.T, name string) (forth, back []string) {
	t.Helper()
	page, err := guide.Read("../..", name)
	if err != nil {
		t.Fatal(err)
	}
	there, again, found := strings.Cut(page, wayBack)
	if !found {
		t.Fatalf("%s tells no way back", name)
	}
	return guide.Lines(there), guide.Lines(again)
}

// metallb puts there what MetalLB's manifests do, as far as the guide speaks of it.
func (c *cluster) metallb() {
	c.t.Helper()
	pods := v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "metallb"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "metallb", Image: "metallb"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: pods.Labels}
	ctx, apps := c.t.Context(), c.Client.AppsV1()
	_, err1 := c.Client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "metallb-system"}}, metav1.CreateOptions{})
	_, err2 := apps.Deployments("metallb-system").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "controller"},
		Spec: appsv1.DeploymentSpec{Selector: selector, Template: pods}}, metav1.CreateOptions{})
	_, err3 := apps.DaemonSets("metallb-system").Create(ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "speaker"},
		Spec: appsv1.DaemonSetSpec{Selector: selector, Template: pods}}, metav1.CreateOptions{})
	if _, err := c.Client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: newNamespace}}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	_, err5 := apps.Deployments(newNamespace).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: apiserver.ControllerName},
		Spec: appsv1.DeploymentSpec{Selector: selector, Template: pods}}, metav1.CreateOptions{}) // it is a process of the test's
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
	node.Status.Conditions = []v1.NodeCondition{{Type: "plinth.dev/FabricReady", Status: v1.ConditionTrue}} // its agent's word
	_, err4 := c.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

func TestMetalLBIsTakenOverAsTheGuideSays(t *testing.T) {
	c := newCluster(t)
	c.metallb()
	c.pools(`
    - {name: first, addresses: [192.0.2.0/28, "2001:db8:2::/64"]}
    - {name: second, addresses: [198.51.100.0/28], autoAssign: false}`)
	theirs := annotated("metallb.io/ip-allocated-from-pool", "first") // MetalLB writes it on each
	shared := annotated("metallb.universe.tf/allow-shared-ip", "web")
	vips := map[string][]string{}
	for _, s := range []struct {
		name   string
		change func(*v1.Service)
		vips   []string
	}{
		{"plain", theirs, []string{"192.0.2.5"}},
		{"asked", annotated("metallb.universe.tf/loadBalancerIPs", "192.0.2.7"), []string{"192.0.2.7"}},
		{"field", func(svc *v1.Service) { svc.Spec.LoadBalancerIP = "192.0.2.9" }, []string{"192.0.2.9"}},
		{"http", shared, []string{"192.0.2.11"}},
		{"https", func(svc *v1.Service) { shared(svc); port(443)(svc) }, []string{"192.0.2.11"}},
		{"dual", families(v1.IPFamilyPolicyRequireDualStack, v1.IPv4Protocol, v1.IPv6Protocol), []string{"192.0.2.12", "2001:db8:2::c"}},
		{"pooled", annotated("metallb.io/address-pool", "second"), []string{"198.51.100.3"}},
	} {
		c.endpoints(s.name, "w1")
		c.service(s.name, s.change)
		c.says(s.name, s.vips...)
		vips[s.name] = s.vips
	}

	folder := t.TempDir()
	forth, back := commands(t, "migrate-from-metallb.md")
	if len(forth) < 9 || len(back) < 4 {
		t.Errorf("the guide has only %d commands, and %d for the way back", len(forth), len(back))
	}
	look := 1 + slices.IndexFunc(forth, func(line string) bool { return strings.HasPrefix(line, "diff ") })
	stop := c.migrate(folder, forth[:look], vips)
	stop()
	for _, line := range back {
		c.Shell(folder, line)
	}
	c.service("late", annotated("metallb.io/ip-allocated-from-pool", "first")) // MetalLB gives it an address
	c.says("late", "192.0.2.13")
	c.untouched(vips)
	c.remove("late", "plain")
	c.gone("late")
	c.gone("plain")
	delete(vips, "plain")

	before := len(c.Server.Writes())
	c.migrate(folder, forth, vips)
	told := map[string][]apiserver.Write{}
	for _, w := range c.Server.Quiet(apiserver.ControllerName, before) {
		if w.Resource == "services" && w.Code != http.StatusConflict { // which writes nothing
			told[w.Name] = append(told[w.Name], w)
		}
	}
	for name := range vips {
		most := 1
		if name == "dual" {
			most = 2 // no session carries its IPv6 address, which it is told
		}
		if n := len(told[name]); n < 1 || n > most {
			t.Errorf("%s was written to %d times, want %d at most: %+v", name, n, most, told[name])
		}
	}
	if n := len(c.claims()); n != 6 {
		t.Errorf("%d VIPs are held: %v", n, c.claims())
	}
	c.Eventually(10*time.Second, "no Service was edited but for its finalizer", func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, svc := range list.Items {
			if slices.ContainsFunc(svc.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
				return strings.HasPrefix(m.Manager, "plinth") && m.Subresource == ""
			}) {
				return fmt.Errorf("%s was", svc.Name)
			}
		}
		return nil
	})
	c.service("new")
	c.has("new", "192.0.2.0")
}

// migrate does what the guide says, and returns what kills Plinth.
func (c *cluster) migrate(folder string, lines []string, vips map[string][]string) (stop func()) {
	c.t.Helper()
	for _, line := range lines {
		if arguments, ours := strings.CutPrefix(line, "plinth "); ours {
			c.Shell(folder, c.plinth()+" "+arguments+" || test $? = 1") // 1: something was guessed
			c.imported(filepath.Join(folder, "inventory.yaml"))
			continue
		}
		if !strings.HasPrefix(line, "kubectl apply -k") { // which starts Plinth
			out := c.Shell(folder, line)
			if strings.Contains(line, "sed -n '/ False: /p'") && out != "" {
				c.t.Errorf("some are told no:\n%s", out)
			}
			continue
		}
		stop = c.start()
		for name, want := range vips {
			c.has(name, want...)
			c.allocated(name, "Allocated")
		}
	}
	return stop
}

// imported checks that an inventory which was written from the cluster has its Nodes. MetalLB's own resources, which are not there, are read
// where it runs (test/traffic/takeover).
func (c *cluster) imported(file string) {
	c.t.Helper()
	text, err := os.ReadFile(file)
	must(c.t, err)
	inv, problems := document.Parse(document.Document{Source: file, Data: text})
	must(c.t, problems.Err())
	nodes, err := c.Client.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	must(c.t, err)
	for _, n := range nodes.Items {
		if _, ok := inv.Machine(n.Name); !ok {
			c.t.Errorf("node %s is not in\n%s", n.Name, text)
		}
	}
	if len(nodes.Items) == 0 {
		c.t.Error("the cluster has no Node")
	}
}

// untouched checks that Services have these VIPs and nothing of Plinth's, which holds none.
func (c *cluster) untouched(vips map[string][]string) {
	c.t.Helper()
	for name, want := range vips {
		if err := c.bare(c.t.Context(), name, want...); err != nil {
			c.t.Error(err)
		}
	}
	if held := c.claims(); len(held) > 0 {
		c.t.Errorf("Plinth holds %v", held)
	}
}

// bare says whether a Service has these VIPs and nothing of Plinth's.
func (c *cluster) bare(ctx context.Context, name string, vips ...string) error {
	svc, err := c.Client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := ingress(svc); !slices.Equal(got, vips) || len(svc.Finalizers) > 0 || len(svc.Status.Conditions) > 0 {
		return fmt.Errorf("%s has %v, finalizers %v, conditions %v", name, got, svc.Finalizers, svc.Status.Conditions)
	}
	return nil
}
