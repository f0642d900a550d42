package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// secondPods is the Deployment whose pods are the endpoints of the Service that gets the
// VIPs in the end, in a namespace of its own.
const secondPods = "second"

// TestVIPOfAServiceThatLingersLeadsToItsSecondHolderAloneOnEveryMachine has kube-proxy
// know both Services: the first one stays, being deleted, for another program's finalizer.
func TestVIPOfAServiceThatLingersLeadsToItsSecondHolderAloneOnEveryMachine(t *testing.T) {
	for kind, class := range map[string]string{"classless": "", "class": "plinth.dev/bgp"} {
		t.Run(kind, func(t *testing.T) {
			l := story.Shared(t)
			story.InForce(t, l, lab.Inventory(l.Topology), lab.Pool(l.Topology, "one", "198.51.100.77/32", "2001:db8:77::77/128"))
			story.Web(t, l, "first", 4)
			story.Web(t, l, secondPods, 4)
			vips := story.Expose(t, l, ofPoolOne("first", class))
			lingers(t, l, "first")
			served(t, l, vips, "first")
			must(t, l.Kube.CoreV1().Services(corev1.NamespaceDefault).Delete(t.Context(), "first", metav1.DeleteOptions{}))

			second(t, l, "tenant-"+kind, class, vips)
			story.Announced(t, l, vips)
			served(t, l, vips, secondPods)
			kept, err := l.Kube.CoreV1().Services(corev1.NamespaceDefault).Get(t.Context(), "first", metav1.GetOptions{})
			must(t, err)
			if n := len(kept.Status.LoadBalancer.Ingress); kept.DeletionTimestamp == nil || n > 0 {
				t.Errorf("the first Service, deleted at %v, shows %d VIPs", kept.DeletionTimestamp, n)
			}
		})
	}
}

// ofPoolOne is a Service that gets the VIPs of the pool that has but two, one a family.
func ofPoolOne(name, class string) *corev1.Service {
	s := lab.LoadBalancer(name, name)
	s.Annotations = map[string]string{"plinth.dev/pool": "one"}
	if class != "" {
		s.Spec.LoadBalancerClass = &class
	}
	return s
}

// lingers has a Service stay after its deletion until the story ends.
func lingers(t *testing.T, l *lab.Lab, name string) {
	t.Helper()
	finalizers := func(ctx context.Context, patch string) error {
		_, err := l.Kube.CoreV1().Services(corev1.NamespaceDefault).Patch(ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	must(t, lab.Within(t.Context(), 10*time.Second, func(ctx context.Context) error {
		s, err := l.Kube.CoreV1().Services(corev1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.Finalizers = append(s.Finalizers, "example.com/hold")
		_, err = l.Kube.CoreV1().Services(corev1.NamespaceDefault).Update(ctx, s, metav1.UpdateOptions{})
		return err
	}))
	t.Cleanup(func() {
		err := finalizers(context.Background(), `[{"op": "replace", "path": "/metadata/finalizers", "value": []}]`)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// second creates a Service in a namespace of its own, whose endpoints are the pods of the
// second Deployment, and waits until it has the VIPs.
func second(t *testing.T, l *lab.Lab, tenant, class string, vips []netip.Addr) {
	t.Helper()
	namespaces := l.Kube.CoreV1().Namespaces()
	_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if err := namespaces.Delete(context.Background(), tenant, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	s := ofPoolOne("web", class)
	s.Spec.Selector = nil
	services := l.Kube.CoreV1().Services(tenant)
	made, err := services.Create(t.Context(), s, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if err := services.Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		gone := lab.Within(context.Background(), 20*time.Second, func(ctx context.Context) error {
			if _, err := services.Get(ctx, made.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the second Service is still there (%v)", err)
			}
			return nil
		})
		if gone != nil {
			t.Error(gone)
		}
	})
	endpoints(t, l, made)
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		now, err := services.Get(ctx, made.Name, metav1.GetOptions{})
		if err == nil && len(now.Status.LoadBalancer.Ingress) < len(vips) {
			err = fmt.Errorf("the second Service says %v", now.Status)
		}
		return err
	}))
}

// endpoints makes the pods of the second Deployment the endpoints of a Service.
func endpoints(t *testing.T, l *lab.Lab, s *corev1.Service) {
	t.Helper()
	pods, err := l.Pods(t.Context(), secondPods)
	must(t, err)
	for i, kind := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{GenerateName: s.Name + "-", Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: s.Name, UID: s.UID}}},
			AddressType: kind,
		}
		for _, p := range s.Spec.Ports {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.TargetPort.IntVal})
		}
		ready := true
		for _, pod := range pods {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{pod.Status.PodIPs[i].IP}, NodeName: &pod.Spec.NodeName, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			})
		}
		_, err := l.Kube.DiscoveryV1().EndpointSlices(s.Namespace).Create(t.Context(), slice, metav1.CreateOptions{})
		must(t, err)
	}
}

// served waits until the outside client, and each machine, whose own kube-proxy sends its
// packets on, hear the pods of one Deployment many times in a row; from then on nobody else
// may answer.
func served(t *testing.T, l *lab.Lab, vips []netip.Addr, app string) {
	t.Helper()
	pods, err := l.Pods(t.Context(), app)
	must(t, err)
	names := map[string]bool{}
	for _, p := range pods {
		names[p.Name] = true
	}
	hosts := []string{""} // the client
	for _, m := range l.Topology.Machines() {
		hosts = append(hosts, m.Name)
	}
	everywhere := func(ctx context.Context) error {
		for _, vip := range vips {
			for _, host := range hosts {
				for range 20 {
					if err := story.Answers(ctx, l, host, vip, names); err != nil {
						return fmt.Errorf("of %s: %w", app, err)
					}
				}
			}
		}
		return nil
	}
	must(t, lab.Within(t.Context(), time.Minute, everywhere))
	for range 3 {
		must(t, lab.Within(t.Context(), time.Minute, func(ctx context.Context) error {
			err := everywhere(ctx)
			if errors.Is(err, story.ErrOther) {
				t.Error(err)
				return nil
			}
			return err
		}))
	}
}
