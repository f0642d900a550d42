package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// villains is the namespace of Services that ask for what they must not have. Their
// endpoints are ready, so that a VIP would be announced the moment that they held one.
const villains = "villains"

func TestServicesThatAskForWhatIsNotTheirsChangeNothingThatIsAnnounced(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "honest", 2)
	honest := lab.LoadBalancer("honest", "honest")
	honest.Annotations = map[string]string{"plinth.dev/sharing-key": "web"}
	vips := story.Expose(t, l, honest)
	story.Announced(t, l, vips)
	before := story.RoutersKnow(t, l)
	four, six := vips[0].String(), vips[1].String()

	_, err := l.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: villains}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if err := l.Kube.CoreV1().Namespaces().Delete(context.Background(), villains, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	top := l.Topology
	router, machine := top.RouterAddress("tor-r1", "r1"), top.MachineAddress("w1")
	asks := []string{
		four, six, four + "," + six, strings.ToUpper(six), netip.MustParseAddr(six).StringExpanded(), // another's
		"::ffff:" + four, "0" + four, six + "%eth0", four + "/32", // its odd spellings
		router.V4.String(), router.V6.String(), machine.V4.String(), machine.V6.String(), "::ffff:" + router.V4.String(),
		"10.96.0.1", "fd00:96::1", "10.244.0.1", "fd00:244::1", // the API server's, and pods'
		"224.0.0.5", "ff02::1", "127.0.0.1", "::1", "0.0.0.0", "255.255.255.255", "169.254.1.1", "fe80::1",
	}
	for i, ips := range asks {
		villain(t, l, i, func(s *corev1.Service) { s.Annotations = map[string]string{"metallb.io/loadBalancerIPs": ips} })
	}
	villain(t, l, len(asks), func(s *corev1.Service) { s.Spec.LoadBalancerIP = router.V4.String() })
	villain(t, l, len(asks)+1, func(s *corev1.Service) {
		s.Annotations = map[string]string{"plinth.dev/sharing-key": "web", "plinth.dev/ips": four}
	})
	edits := []string{four, router.V4.String(), machine.V4.String(), "10.96.0.1", "224.0.0.5"}
	refusedAll(t, l, len(asks)+2)
	for round := range 2 { // a status says nothing, whoever wrote it and how often
		for i := range len(asks) + 2 {
			overwrite(t, l, villains, fmt.Sprint("villain", i), edits[(i+round)%len(edits)])
		}
		overwrite(t, l, corev1.NamespaceDefault, "honest", router.V4.String())
		passage(t, l, "honest")
		if now := story.RoutersKnow(t, l); now != before {
			t.Fatalf("the routers knew\n%s\nand now know\n%s", before, now)
		}
	}
	// One that starts looks at every status, for what another balancer gave before it.
	for i := range len(asks) + 2 {
		overwrite(t, l, villains, fmt.Sprint("villain", i), edits[i%len(edits)])
	}
	overwrite(t, l, corev1.NamespaceDefault, "honest", router.V4.String())
	must(t, l.RestartCCM(t.Context()))
	passage(t, l, "honest")
	if now := story.RoutersKnow(t, l); now != before {
		t.Errorf("the routers knew\n%s\nand, after the controller was restarted, know\n%s", before, now)
	}
	must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
		now, err := l.VIPs(ctx, "honest")
		if err == nil && fmt.Sprint(now) != fmt.Sprint(vips) {
			err = fmt.Errorf("the status of the honest Service says %v", now)
		}
		return err
	}))
	refusedAll(t, l, len(asks)+2)
	claims, err := l.Kube.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{LabelSelector: "ipaddress.kubernetes.io/managed-by=plinth.dev"})
	must(t, err)
	for _, c := range claims.Items {
		if c.Spec.ParentRef == nil || c.Spec.ParentRef.Namespace == villains || strings.Contains(c.Annotations["plinth.dev/shared-by"], villains) {
			t.Errorf("%s is held by %+v, shared by %q", c.Name, c.Spec.ParentRef, c.Annotations["plinth.dev/shared-by"])
		}
	}
	story.Announced(t, l, vips)
}

// passage waits until all agents and routers have heard of all that was done before:
// another Service comes and goes.
func passage(t *testing.T, l *lab.Lab, web string) {
	t.Helper()
	vips := story.Expose(t, l, lab.LoadBalancer("passage", web))
	story.Announced(t, l, vips)
	must(t, l.RemoveService(t.Context(), "passage"))
	for _, vip := range vips {
		must(t, l.WaitGone(t.Context(), vip))
	}
}

// villain creates a Service whose endpoint is ready, and that no rule of Kubernetes
// keeps from asking for anything.
func villain(t *testing.T, l *lab.Lab, n int, change func(*corev1.Service)) {
	t.Helper()
	s := lab.LoadBalancer(fmt.Sprint("villain", n), "")
	s.Namespace, s.Spec.Selector = villains, nil
	if n%2 == 1 {
		class := "plinth.dev/bgp"
		s.Spec.LoadBalancerClass = &class
	}
	change(s)
	_, err := l.Kube.CoreV1().Services(villains).Create(t.Context(), s, metav1.CreateOptions{})
	must(t, err)
	ready, node := true, "w1"
	for kind, address := range map[discoveryv1.AddressType]string{discoveryv1.AddressTypeIPv4: "10.244.0.99", discoveryv1.AddressTypeIPv6: "fd00:244::99"} {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: strings.ToLower(s.Name + "-" + string(kind)), Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
			AddressType: kind,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		}
		_, err := l.Kube.DiscoveryV1().EndpointSlices(villains).Create(t.Context(), slice, metav1.CreateOptions{})
		must(t, err)
	}
}

// refusedAll waits until all villains have been told no.
func refusedAll(t *testing.T, l *lab.Lab, n int) {
	t.Helper()
	must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
		list, err := l.Kube.CoreV1().Services(villains).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		refused := 0
		for _, s := range list.Items {
			if meta.IsStatusConditionFalse(s.Status.Conditions, "plinth.dev/VIPAllocated") {
				refused++
			} else {
				err = fmt.Errorf("%s %v: %v", s.Name, s.Annotations, s.Status)
			}
		}
		if refused != n {
			return fmt.Errorf("%d of %d villains are refused; %w", refused, n, err)
		}
		return nil
	}))
}

// overwrite writes a status as whoever may write statuses.
func overwrite(t *testing.T, l *lab.Lab, namespace, name, ip string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]string{"ip": ip}}}}})
	must(t, err)
	_, err = l.Kube.CoreV1().Services(namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	must(t, err)
}
