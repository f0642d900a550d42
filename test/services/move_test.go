package services

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/test/apiserver"
)

// moved has pod CIDRs to lose, and a password. Its pool gives addresses from 192.0.2.0 on.
const moved = `  podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}
  safety: {maxUnreachable: 100%}
  racks: [{name: r01, subnets: [10.10.1.0/26], machines: [{name: w1, addresses: [10.10.1.11]}, {name: w2, addresses: [10.10.1.12], labels: {example.com/held: "yes"}}]}]
  pools: [{name: public, addresses: [192.0.2.0/24]`

func movedInventory(pool string) string {
	return strings.Replace(apiserver.Document(moved+pool+"}]\n"), "bgp: {asn: 65010}", "bgp: {asn: 65010, passwordFrom: {secret: bgp, key: tor}}", 1)
}

// fatal stands before the API server, and has a program die by SIGKILL when it is about to write for the
// second time.
type fatal struct {
	*httputil.ReverseProxy
	url    string
	writes atomic.Int32
	victim chan *apiserver.Process
}

func (c *cluster) fatal() *fatal {
	c.t.Helper()
	target, err := url.Parse(c.URL())
	if err != nil {
		c.t.Fatal(err)
	}
	f := &fatal{ReverseProxy: httputil.NewSingleHostReverseProxy(target), victim: make(chan *apiserver.Process, 1)}
	f.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	server := httptest.NewTLSServer(f)
	c.t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func (f *fatal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && f.writes.Add(1) > 1 {
		(<-f.victim).Kill()
		return
	}
	f.ReverseProxy.ServeHTTP(w, r)
}

// moveOnce runs plinth move until it ends, or is killed before its second write.
func (c *cluster) moveOnce(plinth string) (done bool) {
	c.t.Helper()
	f := c.fatal()
	p := c.Spawn(plinth, "move", "--to", newNamespace, "--kubeconfig", c.WriteKubeconfigOf(f.url, "mover", "admin"))
	f.victim <- p
	p.Ended(2 * time.Minute)
	return p.ExitCode() == 0
}

// held is what a move may not change: Nodes with their pod CIDRs, and who has which VIP.
func (c *cluster) held() map[string]string {
	c.t.Helper()
	nodes, err := c.Client.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	claims, err := c.Client.NetworkingV1().IPAddresses().List(c.t.Context(), metav1.ListOptions{LabelSelector: "ipaddress.kubernetes.io/managed-by=plinth.dev"})
	if err != nil {
		c.t.Fatal(err)
	}
	all := map[string]string{}
	for _, n := range nodes.Items {
		all["node "+n.Name] = fmt.Sprint(n.UID, n.Spec.PodCIDRs, n.Spec.ProviderID, n.Spec.Taints, n.Labels, n.Annotations, n.Status.Addresses)
	}
	for _, a := range claims.Items {
		all["vip "+a.Name] = fmt.Sprint(a.UID, holders(&a))
	}
	return all
}

// wrote are the writes of controller managers, but Events.
func (c *cluster) wrote(since int) (all []string) {
	c.t.Helper()
	for _, w := range c.Written(since) {
		all = append(all, fmt.Sprintf("%s %s/%s %s", w.Verb, w.Namespace, w.Resource, w.Name))
	}
	return all
}

// atWork starts an installation in kube-system with all that a move could lose: VIPs, one in quarantine,
// Nodes with pod CIDRs, a password.
func (c *cluster) atWork() *apiserver.Process {
	c.t.Helper()
	ctx := c.t.Context()
	c.EditInventory(movedInventory(""), nil)
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bgp"}, Data: map[string][]byte{"tor": []byte("secret")}}
	if _, err := c.Client.CoreV1().Secrets(oldNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	for _, name := range []string{"w1", "w2"} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{Taints: []v1.Taint{apiserver.Uninitialized()}}}
		n.Status.Conditions = []v1.NodeCondition{apiserver.Ready(true)}
		if _, err := c.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
	first := c.in(oldNamespace)
	for i, name := range []string{"a", "b", "left"} {
		c.service(name)
		c.has(name, fmt.Sprintf("192.0.2.%d", i))
	}
	c.remove("left")
	c.gone("left")
	c.free("192.0.2.2") // and in quarantine
	c.Eventually(20*time.Second, "Nodes have pod CIDRs", func(ctx context.Context) error {
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		for _, n := range nodes.Items {
			if waits := slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == apiserver.Uninitialized().Key }); err == nil && (waits || len(n.Spec.PodCIDRs) == 0) {
				err = fmt.Errorf("%s has %v", n.Name, n.Spec)
			}
		}
		return err
	})
	return first
}

// TestAnInstallationIsMovedThoughTheMoverDiesAfterEachWrite moves one from kube-system to plinth-system
// with the programs as they are shipped. A controller in the new namespace waits from the beginning, and one
// in the old namespace is started again once the first has ended: none of them does anything before the last
// write that counts, and then the new one alone.
func TestAnInstallationIsMovedThoughTheMoverDiesAfterEachWrite(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	plinth := c.plinth()
	first := c.atWork()
	before, w := c.held(), c.watch()
	second := c.in(newNamespace)
	c.logged("holds the lease of namespace kube-system")
	c.Quiet(apiserver.ControllerName, 0)
	first.Terminate()

	begin, deaths := len(c.Writes()), 0
	var third *apiserver.Process
	for ; !c.moveOnce(plinth); deaths++ {
		if third == nil { // somebody scales it up again, or Git does
			third = c.in(oldNamespace)
			c.logged("Refusing to lead")
		}
		if wrote := c.wrote(begin); c.acceptedIn(newNamespace) == "" && len(wrote) > 0 {
			t.Fatalf("after %d deaths, before it was moved, a controller wrote %v", deaths, wrote)
		}
		if deaths > 20 {
			t.Fatalf("it is not moved after %d deaths:\n%s", deaths, c.Log("plinth"))
		}
	}
	t.Logf("it was moved after %d deaths:\n%s", deaths, c.Log("plinth"))
	if deaths < 5 {
		t.Errorf("it died %d times: not between all of its steps", deaths)
	}

	// The first free address is in quarantine still; the one after it is given.
	c.service("next")
	c.has("next", "192.0.2.3")
	after := c.held()
	delete(after, "vip 192.0.2.3")
	if d := cmp.Diff(before, after); d != "" {
		t.Error(d)
	}
	c.sawNothing(w)
	c.takesUpInTheNewNamespace()
	for _, what := range c.wrote(begin) {
		if strings.Contains(what, " "+oldNamespace+"/") {
			t.Errorf("a controller wrote in the old namespace: %s", what)
		}
	}
	if holder := c.leader(); holder != "moved-to-"+newNamespace || !third.Running() {
		t.Errorf("the lease of the old namespace is %s's", holder)
	}
	secret, err := c.Client.CoreV1().Secrets(newNamespace).Get(t.Context(), "bgp", metav1.GetOptions{})
	if err != nil || string(secret.Data["tor"]) != "secret" {
		t.Errorf("the password is %v, %v", secret, err)
	}
	second.Kill()
	third.Kill()
}

// takesUpInTheNewNamespace edits the inventory that was moved there.
func (c *cluster) takesUpInTheNewNamespace() {
	c.t.Helper()
	maps := c.Client.CoreV1().ConfigMaps(newNamespace)
	cm, err := maps.Get(c.t.Context(), apiserver.InventoryName, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	cm.Data["dc1.yaml"] = movedInventory(", priority: 3")
	if _, err := maps.Update(c.t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.Eventually(20*time.Second, "an edit is in force in the new namespace, and not in the old one", func(ctx context.Context) error {
		cm, err := maps.Get(ctx, source.AcceptedName, metav1.GetOptions{})
		if err == nil && (cm.Annotations[source.AnnotationGeneration] != "2" || c.acceptedIn(oldNamespace) != "1") {
			err = fmt.Errorf("generation %s, and %s in the old one", cm.Annotations[source.AnnotationGeneration], c.acceptedIn(oldNamespace))
		}
		return err
	})
}
