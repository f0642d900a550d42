package services

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/apiserver"
)

// world is an inventory of two racks whose pools are in use, in part.
const world = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  racks:
    - name: r1
      routers: [{name: tor-r1, address: 10.1.0.1, asn: 65101}]
      machines:
        - {name: w1, addresses: [10.1.0.11]}
        - {name: w2, addresses: [10.1.0.12]}
    - name: r2
      routers: [{name: tor-r2, address: 10.2.0.1, asn: 65102}]
      machines:
        - {name: w3, addresses: [10.2.0.13]}
        - {name: w4, addresses: [10.2.0.14]}
  pools:
    - {name: public, addresses: [203.0.113.0/25]}
    - {name: inner, addresses: [198.51.100.0/28], autoAssign: false, advertise: {racks: [r2]}}
    - {name: spare, addresses: [192.0.2.0/28], autoAssign: false}
`

// newWorld has that inventory in force, and Services with endpoints: web on machines of both
// racks; local, with local traffic, on w1 alone; inner of the pool of that name; idle on none.
func newWorld(t *testing.T) *cluster {
	c := newCluster(t)
	for _, m := range []string{"w1", "w2", "w3", "w4"} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: m}, Spec: v1.NodeSpec{Taints: []v1.Taint{apiserver.Uninitialized()}}}
		n.Status.Conditions = []v1.NodeCondition{apiserver.Ready(true), {Type: lb.FabricReady, Status: v1.ConditionTrue}} // its agent's word
		_, err := c.Client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
		must(t, err)
	}
	c.tryTrials()
	c.EditInventory(world, nil)
	c.service("web", annotated("plinth.dev/ips", "203.0.113.77"))
	c.service("local", annotated("plinth.dev/ips", "203.0.113.78"), func(svc *v1.Service) {
		svc.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
	})
	c.service("inner", annotated("plinth.dev/pool", "inner"))
	c.service("idle", annotated("plinth.dev/ips", "203.0.113.79"))
	c.endpoints("web", "w1", "w3")
	c.endpoints("local", "w1")
	c.endpoints("inner", "w2")
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// endpoints gives a Service one that is ready on each of some machines.
func (c *cluster) endpoints(service string, machines ...string) {
	c.t.Helper()
	c.endpointsOf(discoveryv1.AddressTypeIPv4, service, "10.244.0.%d", machines...)
}

func (c *cluster) endpointsOf(family discoveryv1.AddressType, service, address string, machines ...string) {
	c.t.Helper()
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}}, AddressType: family}
	for i, m := range machines {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf(address, i+1)}, NodeName: &m})
	}
	_, err := c.Client.DiscoveryV1().EndpointSlices("default").Create(c.t.Context(), s, metav1.CreateOptions{})
	must(c.t, err)
}

// edited edits the inventory and waits until the edit was decided on: taken up where no text is
// wanted, or refused with a text.
func (c *cluster) edited(what, text, want string) {
	c.t.Helper()
	c.EditInventory(text, nil)
	c.decided(what, text, want)
}

func (c *cluster) decided(what, text, want string) {
	c.t.Helper()
	c.Eventually(20*time.Second, what+" is decided on", func(ctx context.Context) error {
		status, err := c.Client.CoreV1().ConfigMaps("kube-system").Get(ctx, "plinth-inventory-status", metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready, problems := status.Data["ready"] == "true", status.Data["problems"]
		if ready != (want == "") || !strings.Contains(problems, want) {
			return fmt.Errorf("ready is %v, wanted %q; problems: %s", ready, want, problems)
		}
		return c.inForce(ctx, text, ready)
	})
}

// inForce reports whether the mark of an edit is in force, as it is to be or not.
func (c *cluster) inForce(ctx context.Context, text string, want bool) error {
	mark := regexp.MustCompile(`example.com/edit: e\d+`).FindString(text) + "\n"
	accepted, err := c.Client.CoreV1().ConfigMaps("kube-system").Get(ctx, "plinth-accepted", metav1.GetOptions{})
	if err == nil && strings.Contains(accepted.Data["inventory.yaml"], mark) != want {
		return fmt.Errorf("%q in force: %v", mark, !want)
	}
	return err
}

// marked is the world with pairs of texts replaced, and a label that tells this edit from others.
func marked(t testing.TB, n int, edits ...string) string {
	t.Helper()
	text := world
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("%q is not there to be edited", edits[i])
		}
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	return strings.Replace(text, "spec:\n", fmt.Sprintf("spec:\n  labels: {example.com/edit: e%d}\n", n), 1)
}

// Parts of the world that are edited.
const (
	public    = "    - {name: public, addresses: [203.0.113.0/25]}\n"
	inner     = "advertise: {racks: [r2]}"
	tor2      = "      routers: [{name: tor-r2, address: 10.2.0.1, asn: 65102}]\n"
	w1        = "{name: w1,"
	w2        = "{name: w2,"
	web       = "service default/web loses 203.0.113.77"
	local     = "service default/local loses 203.0.113.78"
	innerLost = "service default/inner loses 198.51.100."
)

func TestNoEditTakesAVIPFromEverybodyAndNoHonestOneIsRefused(t *testing.T) {
	c := newWorld(t)
	c.start()
	for _, s := range []string{"web", "local", "idle"} {
		c.Eventually(20*time.Second, s+" is served", func(ctx context.Context) error {
			svc, err := c.Client.CoreV1().Services("default").Get(ctx, s, metav1.GetOptions{})
			return cmp.Or(err, unserved(svc))
		})
	}
	inside, err := c.Client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	must(t, err)
	racks := world[strings.Index(world, "  racks:"):strings.Index(world, "  pools:")]
	for i, tt := range []struct {
		what string
		edit []string
		want string // empty: it is taken up
	}{
		{"the pool is shrunk", []string{"203.0.113.0/25", "203.0.113.0/30"}, web + ": no pool has it"},
		{"the pool is gone", []string{public, ""}, local + ": no pool has it"},
		{"the pools are gone", []string{world[strings.Index(world, "  pools:"):], ""}, innerLost},
		{"the pool is disabled", []string{"[203.0.113.0/25]", "[203.0.113.0/25], state: disabled"}, web + ": its pool is disabled"},
		{"the half that is in use is disabled", []string{public, "    - {name: public, addresses: [203.0.113.0/26]}\n    - {name: more, addresses: [203.0.113.64/26], state: disabled}\n"}, web + ": its pool is disabled"},
		{"the pool goes to racks without its endpoints", []string{"[203.0.113.0/25]", "[203.0.113.0/25], advertise: {racks: [r2]}"}, local},
		{"the pool goes to a zone without its endpoints", []string{"[203.0.113.0/25]", "[203.0.113.0/25], advertise: {zones: [r2]}"}, local},
		{"the pool goes to a router that its rack has not", []string{inner, "advertise: {racks: [r2], routers: [tor-r1]}"}, innerLost},
		{"the pool is announced for other Services", []string{inner, "advertise: [{serviceSelector: {matchLabels: {tier: gold}}}]"}, innerLost},
		{"the pool is shrunk under a Service without endpoints", []string{"203.0.113.0/25", "203.0.113.76/31, 203.0.113.78"}, "service default/idle loses 203.0.113.79"},
		{"the rack loses its router", []string{tor2, ""}, innerLost},
		{"the machine with the endpoints is in maintenance", []string{w1, w1 + " state: maintenance,"}, local + ": no machine for it is active"},
		{"the machine with the endpoints is off", []string{w1, w1 + " state: 'off',"}, local},
		{"the machine with the endpoints is retired", []string{w1, w1 + " state: retired,"}, local},
		{"two machines are in maintenance", []string{w2, w2 + " state: maintenance,", "{name: w4,", "{name: w4, state: maintenance,"}, "2 of 4 machines out of service at once, and 1 may be: w2, w4"},
		{"a rack is in maintenance", []string{"name: r2\n", "name: r2\n      state: maintenance\n"}, innerLost},
		{"all machines are off", []string{"10.1.0.11]", "10.1.0.11], state: 'off'", "10.1.0.12]", "10.1.0.12], state: 'off'", "10.2.0.13]", "10.2.0.13], state: 'off'", "10.2.0.14]", "10.2.0.14], state: 'off'"}, web},
		{"two machines are retired", []string{w2, w2 + " state: retired,", "{name: w4,", "{name: w4, state: retired,"}, "P1001"},
		{"the racks are gone", []string{racks, "", inner, "advertise: {}"}, "4 of 4 machines"},
		{"a router is in an AS that it is not in", []string{"asn: 65101", "asn: " + unanswered}, "the session of w2 with tor-r1 is down"}, // w1 alone announces a VIP
		{"a limit in the same edit does not count", []string{"203.0.113.0/25", "203.0.113.0/30", "  bgp:", "  safety: {maxUnreachable: 100%}\n  bgp:"}, web},
		{"a pool that is expected is missing", []string{public, "", "  bgp:", "  expect: {pools: [public]}\n  bgp:"}, "P0407"},
		{"a pool has the address of a Service inside", []string{"192.0.2.0/28", inside.Spec.ClusterIP + ", 192.0.2.0/28"}, "pool spare takes " + inside.Spec.ClusterIP + "/32 of service default/kubernetes inside the cluster"},
		{"it is paused", []string{"  bgp:", "  safety: {paused: true}\n  bgp:"}, "P1010"},
		{"a key is misspelt", []string{"addresses: [203.0.113.0/25]", "adresses: [203.0.113.0/25]"}, "P0201"},

		{"nothing but a label", nil, ""},
		{"the pool grows", []string{"203.0.113.0/25", "203.0.113.0/24"}, ""},
		{"the pool is shrunk where nobody has an address", []string{"203.0.113.0/25", "203.0.113.64/26"}, ""},
		{"the pool drains", []string{"[203.0.113.0/25]", "[203.0.113.0/25], state: draining"}, ""},
		{"the pool has another name", []string{"{name: public", "{name: open"}, ""},
		{"the pool is made two", []string{public, "    - {name: low, addresses: [203.0.113.0/26]}\n    - {name: high, addresses: [203.0.113.64/26]}\n"}, ""},
		{"what is in use is excluded", []string{"[203.0.113.0/25]", "[203.0.113.0/25], exclude: [203.0.113.77]"}, ""},
		{"what is in use is reserved for another", []string{"[203.0.113.0/25]", "[203.0.113.0/25], reserved: {203.0.113.77: prod/other}"}, ""},
		{"the pool is for other namespaces", []string{"[203.0.113.0/25]", "[203.0.113.0/25], namespaces: [prod]"}, ""},
		{"a pool that nobody uses is shrunk", []string{"192.0.2.0/28", "192.0.2.0/29"}, ""},
		{"a pool that nobody uses is gone", []string{"    - {name: spare, addresses: [192.0.2.0/28], autoAssign: false}\n", ""}, ""},
		{"the pool goes to the rack of its endpoints", []string{"[203.0.113.0/25]", "[203.0.113.0/25], advertise: {racks: [r1]}"}, ""},
		{"a pool has two advertisements", []string{inner, "advertise: [{racks: [r1], serviceSelector: {matchLabels: {tier: gold}}, localPref: 200}, {racks: [r2]}]"}, ""},
		{"a pool goes to another rack", []string{inner, "advertise: {racks: [r1]}"}, ""},
		{"a machine without endpoints is in maintenance", []string{w2, w2 + " state: maintenance, reason: disks,"}, ""},
		{"another one is off", []string{"{name: w4,", "{name: w4, state: 'off',"}, ""},
		{"a machine is not mentioned any more", []string{"        - {name: w4, addresses: [10.2.0.14]}\n", ""}, ""},
		{"a machine is added", []string{"[10.2.0.14]}\n", "[10.2.0.14]}\n        - {name: w5, addresses: [10.2.0.15]}\n"}, ""},
		{"a rack is in another zone", []string{"name: r2\n", "name: r2\n      zone: b\n"}, ""},
		{"a rack has two routers", []string{"asn: 65102}]", "asn: 65102}, {name: tor-r2b, address: 10.2.0.2, asn: 65102}]"}, ""},
		{"the terms of sessions are others", []string{"asn: 65010}", "asn: 65010, holdTime: 30s}"}, ""},
		{"a limit is raised", []string{"  bgp:", "  safety: {maxDrained: 50%}\n  bgp:"}, ""},
	} {
		c.edited(tt.what, marked(t, i, tt.edit...), tt.want)
		c.edited("the world as it was, after: "+tt.what, marked(t, 1000+i), "")
	}
}

func TestWhatWasRefusedStaysRefusedUntilItIsAllowed(t *testing.T) {
	c := newWorld(t)
	stop := c.start()
	c.AwaitStatus("ready", "true")
	c.has("web", "203.0.113.77")
	shrunk := marked(t, 1, "203.0.113.0/25", "203.0.113.76/30")
	c.edited("the pool is shrunk to what web and local have", shrunk, "") // 76 to 79
	shrunk = marked(t, 2, "203.0.113.0/25", "203.0.113.78/31")
	c.edited("the pool is shrunk", shrunk, web)

	folder, plinth := t.TempDir(), c.plinth()
	must(t, os.WriteFile(filepath.Join(folder, "edit.yaml"), []byte(shrunk), 0o644))
	said := c.command(exec.Command(plinth, "diff", "--kubeconfig", c.Kubeconfig, "cluster", filepath.Join(folder, "edit.yaml")), 1)
	digest := regexp.MustCompile(`plinth allow ([0-9a-f]{16})`).FindStringSubmatch(said)
	if !strings.Contains(said, web+": no pool has it") || digest == nil {
		t.Fatalf("plinth diff says:\n%s", said)
	}

	stop()
	must(t, c.Client.DiscoveryV1().EndpointSlices("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	stop = c.start() // another leader, who sees a Service without endpoints: it may have them in a second
	c.decided("the edit, while web has no endpoint", shrunk, web)
	c.remove("web")
	c.gone("web")
	stop()
	c.start() // and one to whom web is lost already
	c.decided("the same edit", shrunk, "P1009")
	c.command(exec.Command(plinth, "allow", "--kubeconfig", c.Kubeconfig, digest[1]), 0)
	c.decided("the edit that is allowed", shrunk, "")
}

// command runs a command, wants it to end with a code, and returns what it said.
func (c *cluster) command(cmd *exec.Cmd, code int) string {
	c.t.Helper()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		c.t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}
