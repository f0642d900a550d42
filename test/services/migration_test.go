package services

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// commands returns the lines of a guide that are to be typed.
func commands(t *testing.T, guide string) (lines []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/" + guide)
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(page), "```") {
		if code, ok := strings.CutPrefix(block, "console\n"); ok && i%2 == 1 {
			lines = append(lines, strings.Split(strings.TrimSpace(code), "\n")...)
		}
	}
	return lines
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
	_, err4 := c.Client.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}, metav1.CreateOptions{})
	for _, err := range []error{err1, err2, err3, err4} {
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
		c.service(s.name, s.change)
		c.says(s.name, s.vips...)
		vips[s.name] = s.vips
	}

	folder, done := t.TempDir(), 0
	for _, line := range commands(t, "migrate-from-metallb.md") {
		done++
		if !strings.HasPrefix(line, "kubectl apply -k") { // which starts Plinth
			out := c.Shell(folder, line)
			if strings.Contains(line, "sed -n '/ False: /p'") && out != "" {
				t.Errorf("some are told no:\n%s", out)
			}
			continue
		}
		c.start()
		for name, want := range vips {
			c.has(name, want...)
			c.allocated(name, "Allocated")
		}
	}
	if done < 9 {
		t.Errorf("the guide has only %d commands", done)
	}
	if n := c.writes()["patch services/status"]; n != len(vips) {
		t.Errorf("%d writes of the statuses of %d Services", n, len(vips))
	}
	if n := len(c.claims()); n != 7 {
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
