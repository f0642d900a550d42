package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/components"
)

// plinth is the file of the command.
func plinth(t *testing.T) string {
	t.Helper()
	program, err := components.Plinths(t.Context(), "plinth", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// ask runs the command against the cluster.
func (c *cluster) ask(program string, args ...string) (code int, out string) {
	c.t.Helper()
	var text bytes.Buffer
	cmd := exec.Command(program, append(args, "--kubeconfig", c.Kubeconfig, "--namespace", "kube-system")...)
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		c.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), text.String()
}

// service makes a Service of type LoadBalancer.
func (c *cluster) service(name string) {
	c.t.Helper()
	svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	svc.Spec.Type, svc.Spec.Ports = v1.ServiceTypeLoadBalancer, []v1.ServicePort{{Port: 80}}
	if _, err := c.Client.CoreV1().Services("default").Create(c.t.Context(), svc, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// vip waits until a Service has one.
func (c *cluster) vip(service string) (ip string) {
	c.t.Helper()
	c.Eventually(20*time.Second, "Service "+service+" has a VIP", func(ctx context.Context) error {
		svc, err := c.Client.CoreV1().Services("default").Get(ctx, service, metav1.GetOptions{})
		if err == nil && len(svc.Status.LoadBalancer.Ingress) != 1 {
			err = fmt.Errorf("its status is %v", svc.Status.LoadBalancer)
		}
		if err == nil {
			ip = svc.Status.LoadBalancer.Ingress[0].IP
		}
		return err
	})
	return ip
}

// TestAStoreThatIsBrokenByHandIsGoneOnWithAndMended by a controller that was started after it was broken. At first the
// edit at hand has a mistake.
func TestAStoreThatIsBrokenByHandIsGoneOnWithAndMended(t *testing.T) {
	program := plinth(t)
	c := newCluster(t, apiserver.Options{})
	c.edit(skewed("a", "active"))
	stop := c.start()
	c.register(node{name: "w1"})
	c.until("w1", "is initialised", apiserver.Initialised)
	c.edit(skewed("b", "active"))
	c.AwaitStatus("generation", "2")
	wrong := strings.Replace(skewed("b", "active"), "pools:", "poools:", 1)
	for what, spoil := range map[string]func(){
		"the text of what lists the slices": func() {
			c.Kubectl("patch", "configmap", "-n", "kube-system", "plinth-accepted", "-p", `{"data":{"inventory.yaml":"{"}}`)
		},
		"its list": func() {
			c.Kubectl("patch", "configmap", "-n", "kube-system", "plinth-accepted", "--type=json", "-p", `[{"op":"remove","path":"/data/racks"}]`)
		},
		"what lists the slices is gone": func() { c.Kubectl("delete", "configmap", "-n", "kube-system", "plinth-accepted") },
		"the slice is gone":             func() { c.Kubectl("delete", "configmap", "-n", "kube-system", c.slice().Name, "plinth-accepted-r01") },
	} {
		t.Log(what)
		stop()
		spoil()
		c.edit(wrong)
		stop = c.start()
		c.storeSays("cannot be read")
		c.AwaitStatus("ready", "false")
		name := "web-" + strings.ReplaceAll(what, " ", "-")
		c.service(name)
		c.vip(name)
		c.quiet(2*time.Second, "plinth-accepted")
		code, out := c.ask(program, "status")
		if code != 1 || !strings.Contains(out, "cannot be read") || !strings.Contains(out, "poools") || !strings.Contains(out, "public") {
			t.Errorf("plinth status ends with %d:\n%s", code, out)
		}
		c.edit(skewed("b", "active"))
		c.AwaitStatus("ready", "true")
		c.storeSays("")
		if code, out := c.ask(program, "status"); code > 1 || strings.Contains(out, "cannot be read") {
			t.Errorf("mended, plinth status ends with %d:\n%s", code, out)
		}
		c.quiet(2*time.Second, "plinth-accepted")
	}

	t.Log("what plinth status advises")
	stop()
	for name := range c.accepted() {
		if slice := c.slice(); slice != nil && name == slice.Name {
			c.Kubectl("delete", "configmap", "-n", "kube-system", name)
		}
	}
	c.Kubectl("delete", "configmap", "-n", "kube-system", "plinth-accepted")
	c.edit(wrong)
	c.start()
	c.storeSays("cannot be read")
	_, out := c.ask(program, "status")
	advice := regexp.MustCompile(`kubectl (-n \S+ delete configmap -l plinth.dev/accepted)`).FindStringSubmatch(out)
	if advice == nil {
		t.Fatalf("it advises nothing:\n%s", out)
	}
	c.Kubectl(strings.Fields(advice[1])...)
	c.storeSays("")
	c.edit(skewed("b", "active"))
	c.AwaitStatus("ready", "true")
	c.AwaitStatus("generation", "1")
	if code, out := c.ask(program, "status"); code > 1 || strings.Contains(out, "cannot be read") {
		t.Errorf("begun anew, plinth status ends with %d:\n%s", code, out)
	}
	if n := strings.Count(c.Log(apiserver.ControllerName), "cannot read the stored inventory"); n > 6 {
		t.Errorf("the log says %d times that it cannot be read", n)
	}
}

// storeSays waits until the status says something of what is stored; empty: that nothing is wrong with it.
func (c *cluster) storeSays(want string) {
	c.t.Helper()
	c.Eventually(20*time.Second, "the status says of the store "+want, func(ctx context.Context) error {
		cm, err := c.Client.CoreV1().ConfigMaps("kube-system").Get(ctx, "plinth-inventory-status", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := cm.Data["store"]; (got == "") != (want == "") || !strings.Contains(got, want) {
			return fmt.Errorf("it says %q, and the problems are %s", got, cm.Data["problems"])
		}
		return nil
	})
}

// TestAWriteThatIsRefusedIsTriedAgainWithoutAnotherEdit has the API server ask a webhook that is not there before it
// takes a slice. The status says so, and the log once.
func TestAWriteThatIsRefusedIsTriedAgainWithoutAnotherEdit(t *testing.T) {
	program := plinth(t)
	c := newCluster(t, apiserver.Options{})
	c.edit(skewed("a", "active"))
	c.start()
	c.AwaitStatus("generation", "1")
	const webhook = `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "away"}, "webhooks": [{
 "name": "away.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
 "objectSelector": {"matchExpressions": [{"key": "plinth.dev/accepted", "operator": "Exists"}]},
 "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]}]}`
	c.Kubectl("apply", "-f", filepath.Join(c.files(map[string]string{"webhook.json": webhook}), "webhook.json"))
	c.Eventually(20*time.Second, "the webhook is asked", func(ctx context.Context) error {
		cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "try", Labels: map[string]string{"plinth.dev/accepted": "dc1"}}}
		_, err := c.Client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	c.edit(skewed("b", "active"))
	c.storeSays("failed calling webhook")
	c.AwaitStatus("ready", "false")
	if n := strings.Count(c.Log(apiserver.ControllerName), "cannot keep the inventory"); n != 1 {
		t.Errorf("the log has %d lines of it", n)
	}
	if code, out := c.ask(program, "status"); code != 1 || !strings.Contains(out, "cannot be stored, and is tried again: ") || !strings.Contains(out, "failed calling webhook") {
		t.Errorf("plinth status ends with %d:\n%s", code, out)
	}
	c.Kubectl("delete", "validatingwebhookconfiguration", "away")
	c.AwaitStatus("ready", "true")
	c.storeSays("")
}
