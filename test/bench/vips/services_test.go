package vips

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sizes are those of some numbers of Services that -most allows; when it allows none,
// the number that it does allow.
func sizes(all ...int) []int {
	allowed := slices.DeleteFunc(all, func(n int) bool { return n > *most })
	if len(allowed) == 0 {
		return []int{*most}
	}
	return allowed
}

// each does something for many Services, as eight clients at once.
func (s *stand) each(names []string, do func(ctx context.Context, name string) error) {
	s.b.Helper()
	work := make(chan string)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for name := range work {
				if err := do(s.b.Context(), name); err != nil {
					s.b.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	all.Wait()
	if s.b.Failed() {
		s.b.FailNow()
	}
}

func names(prefix string, from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("%s-%05d", prefix, i))
	}
	return all
}

// createService creates a Service. Its endpoint is to be there already.
func (s *stand) createService(ctx context.Context, name string) error {
	off := false
	svc := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: &off, // a cluster has fewer node ports than we have Services
		Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": name},
	}}
	svc.Name = name
	_, err := s.fast.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{})
	return err
}

// createSlice gives a Service one ready endpoint, on the machine.
func (s *stand) createSlice(ctx context.Context, name string) error {
	on := machine
	slice := &discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.9"}, NodeName: &on}},
	}
	slice.Name, slice.Labels = name, map[string]string{discoveryv1.LabelServiceName: name}
	_, err := s.fast.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice, metav1.CreateOptions{})
	return err
}

func (s *stand) deleteService(ctx context.Context, name string) error {
	return s.fast.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

func (s *stand) deleteSlice(ctx context.Context, name string) error {
	err := s.fast.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// left waits until there are no more than so many load balancers.
func (s *stand) left(n int) {
	s.b.Helper()
	s.Eventually(5*time.Minute, fmt.Sprintf("%d Services are left", n), func(ctx context.Context) error {
		list, err := s.fast.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.type=LoadBalancer", ResourceVersion: "0"})
		if err == nil && len(list.Items) > n {
			time.Sleep(200 * time.Millisecond) // a long list is work for the server
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
}

// served follows Services until so many of them have got an address, and reports when
// the first and the last did. It is to be called before they do.
func (s *stand) served(n int) (wait func(limit time.Duration) (first, last time.Time)) {
	s.b.Helper()
	ctx, stop := context.WithCancel(s.b.Context())
	w, err := s.fast.CoreV1().Services(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "spec.type=LoadBalancer"})
	check(s.b, err)
	have := map[string]bool{}
	return func(limit time.Duration) (first, last time.Time) {
		defer stop()
		over := time.After(limit)
		for len(have) < n {
			select {
			case e := <-w.ResultChan():
				svc, ok := e.Object.(*corev1.Service)
				if !ok {
					s.b.Fatalf("the watch ended: %v", e.Object)
				}
				if len(svc.Status.LoadBalancer.Ingress) == 0 || have[svc.Name] {
					continue
				}
				if have[svc.Name] = true; len(have) == 1 {
					first = time.Now()
				}
				last = time.Now()
			case <-over:
				s.b.Fatalf("after %s %d of %d Services have an address", limit, len(have), n)
			}
		}
		return first, last
	}
}

// version is where a watch is to begin that shows nothing older.
func (s *stand) version() string {
	s.b.Helper()
	list, err := s.fast.CoreV1().Services(namespace).List(s.b.Context(), metav1.ListOptions{Limit: 1})
	check(s.b, err)
	return list.ResourceVersion
}

func (s *stand) createAddress(ctx context.Context, a netip.Addr, holder string) error {
	obj := &networkingv1.IPAddress{Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: holder}}}
	obj.Name = a.String()
	obj.Labels = map[string]string{"floor": "", networkingv1.LabelManagedBy: "floor", networkingv1.LabelIPAddressFamily: "IPv4"}
	_, err := s.fast.NetworkingV1().IPAddresses().Create(ctx, obj, metav1.CreateOptions{})
	return err
}

func (s *stand) deleteAddress(ctx context.Context, a netip.Addr) error {
	return s.fast.NetworkingV1().IPAddresses().Delete(ctx, a.String(), metav1.DeleteOptions{})
}
