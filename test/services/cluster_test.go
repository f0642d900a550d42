package services

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Main(m)) }

// cluster is an API server with Plinth's controller manager beside it.
type cluster struct {
	*apiserver.Controller
	t testing.TB
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	return &cluster{Controller: apiserver.NewController(t, apiserver.Options{}), t: t}
}

// start runs a controller manager and returns what kills it.
func (c *cluster) start(flags ...string) (stop func()) {
	c.t.Helper()
	return c.Start(append([]string{"--configure-cloud-routes=false"}, flags...)...)
}

// pools puts an inventory with these pools into force, whoever loses a VIP by it: what is refused
// for that is another story.
func (c *cluster) pools(yaml string) {
	c.t.Helper()
	c.EditInventory(apiserver.Document(`
  safety: {maxUnreachable: 100%}
  racks: [{name: r01, subnets: [10.10.1.0/26], machines: [{name: w1, addresses: [10.10.1.11]}]}]
  pools:
`+yaml), nil)
}

// service creates a Service of type LoadBalancer in namespace default.
func (c *cluster) service(name string, change ...func(*v1.Service)) *v1.Service {
	c.t.Helper()
	svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: v1.ServiceSpec{
		Type: v1.ServiceTypeLoadBalancer, Ports: []v1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": name},
		AllocateLoadBalancerNodePorts: new(bool),
	}}
	for _, f := range change {
		f(svc)
	}
	out, err := c.Client.CoreV1().Services(svc.Namespace).Create(c.t.Context(), svc, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func class(svc *v1.Service) { s := "plinth.dev/bgp"; svc.Spec.LoadBalancerClass = &s }

func families(policy v1.IPFamilyPolicy, f ...v1.IPFamily) func(*v1.Service) {
	return func(svc *v1.Service) { svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies = &policy, f }
}

func annotated(k, v string) func(*v1.Service) {
	return func(svc *v1.Service) { metav1.SetMetaDataAnnotation(&svc.ObjectMeta, k, v) }
}

func port(n int32) func(*v1.Service) {
	return func(svc *v1.Service) { svc.Spec.Ports[0].Port = n }
}

// change edits a Service.
func (c *cluster) change(name string, f func(*v1.Service)) {
	c.t.Helper()
	c.Eventually(10*time.Second, "service "+name+" is changed", func(ctx context.Context) error {
		svc, err := c.Client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		f(svc)
		_, err = c.Client.CoreV1().Services("default").Update(ctx, svc, metav1.UpdateOptions{})
		return err
	})
}

func (c *cluster) remove(names ...string) {
	c.t.Helper()
	for _, n := range names {
		if err := c.Client.CoreV1().Services("default").Delete(c.t.Context(), n, metav1.DeleteOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// gone waits until a Service is no longer there.
func (c *cluster) gone(name string) {
	c.t.Helper()
	c.Eventually(20*time.Second, "service "+name+" is gone", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%v)", err)
		}
		return nil
	})
}

// has waits until a Service has exactly these VIPs in its status, and holds them.
func (c *cluster) has(name string, vips ...string) {
	c.t.Helper()
	c.Eventually(20*time.Second, fmt.Sprintf("service %s has %v", name, vips), func(ctx context.Context) error {
		svc, err := c.Client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := ingress(svc); !slices.Equal(got, vips) {
			return fmt.Errorf("its status has %v, its conditions are %v", got, svc.Status.Conditions)
		}
		for _, v := range vips {
			if err := c.holds(ctx, v, "default/"+name); err != nil {
				return err
			}
		}
		return nil
	})
}

func ingress(svc *v1.Service) []string {
	var got []string
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if i.IPMode == nil || *i.IPMode != v1.LoadBalancerIPModeVIP {
			return []string{"an ingress without ipMode VIP"}
		}
		got = append(got, i.IP)
	}
	return got
}

// holds says whether a Service is among the holders of a VIP.
func (c *cluster) holds(ctx context.Context, vip, service string) error {
	obj, err := c.Client.NetworkingV1().IPAddresses().Get(ctx, vip, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := holders(obj); !slices.Contains(got, service) {
		return fmt.Errorf("%s is held by %v", vip, got)
	}
	return nil
}

func holders(obj *networkingv1.IPAddress) []string {
	if shared := obj.Annotations["plinth.dev/shared-by"]; shared != "" {
		return strings.Split(shared, ",")
	}
	return []string{obj.Spec.ParentRef.Namespace + "/" + obj.Spec.ParentRef.Name}
}

// claims returns the VIPs that are held.
func (c *cluster) claims() []string {
	c.t.Helper()
	list, err := c.Client.NetworkingV1().IPAddresses().List(c.t.Context(), metav1.ListOptions{LabelSelector: "ipaddress.kubernetes.io/managed-by=plinth.dev"})
	if err != nil {
		c.t.Fatal(err)
	}
	var all []string
	for _, i := range list.Items {
		all = append(all, i.Name)
	}
	return all
}

// onlyHeld waits until these VIPs are held and no others are.
func (c *cluster) onlyHeld(vips ...string) {
	c.t.Helper()
	c.Eventually(20*time.Second, fmt.Sprintf("only %v are held", vips), func(context.Context) error {
		if got := c.claims(); !slices.Equal(got, vips) {
			return fmt.Errorf("held are %v", got)
		}
		return nil
	})
}

// free waits until nobody holds these VIPs.
func (c *cluster) free(vips ...string) {
	c.t.Helper()
	c.Eventually(20*time.Second, fmt.Sprintf("%v are free", vips), func(ctx context.Context) error {
		for _, v := range vips {
			if _, err := c.Client.NetworkingV1().IPAddresses().Get(ctx, v, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is still held (%v)", v, err)
			}
		}
		return nil
	})
}

// refused waits until the condition of a Service says why it has no VIP.
func (c *cluster) refused(name, reason string) {
	c.t.Helper()
	c.Eventually(20*time.Second, "service "+name+" is refused: "+reason, func(ctx context.Context) error {
		svc, err := c.Client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := meta.FindStatusCondition(svc.Status.Conditions, "plinth.dev/VIPAllocated")
		if got == nil || got.Status != metav1.ConditionFalse || got.Reason != reason {
			return fmt.Errorf("the condition is %v", got)
		}
		return nil
	})
}

// writes counts what programs other than this test wrote about Services and VIPs.
func (c *cluster) writes() map[string]int {
	c.t.Helper()
	count := map[string]int{}
	for _, w := range c.Server.Writes() {
		if w.Agent == apiserver.ControllerName && w.Resource != "configmaps" && w.Resource != "nodes" {
			count[strings.TrimSuffix(w.Verb+" "+w.Resource+"/"+w.Subresource, "/")]++
		}
	}
	return count
}

func total(count map[string]int) (n int) {
	for _, x := range count {
		n += x
	}
	return n
}

// unserved says what of what a Service asks for its status lacks.
func unserved(svc *v1.Service) error {
	has := shown(svc)
	if svc.Spec.Type != v1.ServiceTypeLoadBalancer || svc.DeletionTimestamp != nil {
		if len(has) > 0 {
			return fmt.Errorf("it is to show nothing, and shows %v", has)
		}
		return nil
	}
	if len(has) != len(svc.Spec.IPFamilies) {
		return fmt.Errorf("it shows %v, and is to have one of each of %v", has, svc.Spec.IPFamilies)
	}
	if ips := svc.Annotations["plinth.dev/ips"]; ips != "" && !slices.Equal(slices.Sorted(slices.Values(has)), slices.Sorted(strings.SplitSeq(ips, ","))) {
		return fmt.Errorf("it shows %v, and asks for %s", has, ips)
	}
	return nil
}

// leader returns who has the lease.
func (c *cluster) leader() string {
	lease, err := c.Client.CoordinationV1().Leases("kube-system").Get(context.Background(), "cloud-controller-manager", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return fmt.Sprintf("nobody (%v)", err)
	}
	return *lease.Spec.HolderIdentity
}

// elected starts a controller manager that leads only while it holds the lease.
func (c *cluster) elected(flags ...string) *apiserver.Process {
	c.t.Helper()
	return c.Launch(append([]string{"--configure-cloud-routes=false", "--leader-elect=true", "--leader-elect-lease-duration=8s",
		"--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms"}, flags...)...)
}

// exclude puts a Node's label on that keeps it from load balancing, or takes it off.
func (c *cluster) exclude(node string, on bool) {
	c.t.Helper()
	value := "null"
	if on {
		value = `""`
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{"%s":%s}}}`, v1.LabelNodeExcludeBalancers, value)
	_, err := c.Client.CoreV1().Nodes().Patch(c.t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(c.t, err)
}

// burst creates Services of both kinds, and of one family, the other, and both.
func (c *cluster) burst(name string, n int) {
	c.t.Helper()
	for i := range n {
		var change []func(*v1.Service)
		if i%2 == 1 {
			change = append(change, class)
		}
		switch i / 2 % 4 {
		case 1:
			change = append(change, bothFamilies)
		case 2:
			change = append(change, families(v1.IPFamilyPolicySingleStack, v1.IPv6Protocol))
		case 3:
			change = append(change, families(v1.IPFamilyPolicyPreferDualStack, v1.IPv6Protocol, v1.IPv4Protocol))
		}
		c.service(fmt.Sprintf("%s%d", name, i), change...)
	}
}

// served waits until n Services have an address of each of their families, no two of
// them the same one, and hold what they have, and nothing else is held.
func (c *cluster) served(n int) {
	c.t.Helper()
	c.Eventually(time.Minute, fmt.Sprintf("%d Services are served", n), func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		served, owner := 0, map[string]string{}
		for i := range list.Items {
			svc := &list.Items[i]
			has := ingress(svc)
			for _, ip := range has {
				if owner[ip] != "" {
					return fmt.Errorf("%s: %s and %s", ip, owner[ip], svc.Name)
				}
				owner[ip] = svc.Name
				if err := c.holds(ctx, ip, "default/"+svc.Name); err != nil {
					return err
				}
			}
			if len(has) == len(svc.Spec.IPFamilies) {
				served++
			}
		}
		if claims := c.claims(); served != n || len(claims) != len(owner) {
			return fmt.Errorf("%d Services are served with %d VIPs, %d VIPs are held", served, len(owner), len(claims))
		}
		return nil
	})
}

func (c *cluster) unannounced(name, reason string) { c.announcedAs(name, reason) }

// withoutEndpoints takes from a Service those that endpoints gave it.
func (c *cluster) withoutEndpoints(service string) {
	c.t.Helper()
	must(c.t, c.Client.DiscoveryV1().EndpointSlices("default").Delete(c.t.Context(), service, metav1.DeleteOptions{}))
}

// announcedAs waits until a Service says why nobody announces its VIP; empty: it says nothing.
func (c *cluster) announcedAs(name, reason string) (since metav1.Time) {
	c.t.Helper()
	c.Eventually(40*time.Second, "service "+name+" says of announcements: "+reason, func(ctx context.Context) error {
		svc, err := c.Client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := meta.FindStatusCondition(svc.Status.Conditions, "plinth.dev/VIPAnnounced")
		if (got == nil) != (reason == "") || got != nil && (got.Reason != reason || got.Status != metav1.ConditionFalse) {
			return fmt.Errorf("the condition is %v", got)
		}
		if got != nil {
			since = got.LastTransitionTime
		}
		return nil
	})
	return since
}
