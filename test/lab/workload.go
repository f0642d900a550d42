package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Namespace of all that the lab's own workloads make.
const workloads = metav1.NamespaceDefault

// WebPort is the port of the Services that Expose makes.
const WebPort = 80

// AnnotatePod changes how a pod behaves, see the annotations of package kubelet.
func (l *Lab) AnnotatePod(ctx context.Context, pod, key, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		return err
	}
	_, err = l.Kube.CoreV1().Pods(workloads).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// LoadBalancer is a dual-stack Service of type LoadBalancer for the pods of the
// Deployment of the same name, before any change a test wants.
func LoadBalancer(name, app string) *corev1.Service {
	both := corev1.IPFamilyPolicyRequireDualStack
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type:           corev1.ServiceTypeLoadBalancer,
			Selector:       map[string]string{"app": app},
			IPFamilyPolicy: &both,
			Ports: []corev1.ServicePort{
				{Name: "http", Port: WebPort, TargetPort: intstr.FromInt32(8080)},
				{Name: "echo", Port: 7, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolUDP},
			},
		},
	}
}

// Expose creates a Service and waits for its VIPs, IPv4 before IPv6.
func (l *Lab) Expose(ctx context.Context, s *corev1.Service) ([]netip.Addr, error) {
	made, err := l.Kube.CoreV1().Services(workloads).Create(ctx, s, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	var vips []netip.Addr
	err = Within(ctx, 20*time.Second, func(ctx context.Context) error {
		var err error
		if vips, err = l.VIPs(ctx, s.Name); err == nil && len(vips) < len(made.Spec.IPFamilies) {
			err = fmt.Errorf("service %s has %d of %d VIPs", s.Name, len(vips), len(made.Spec.IPFamilies))
		}
		return err
	})
	return vips, err
}

// VIPs returns the VIPs in the status of a Service, IPv4 before IPv6.
func (l *Lab) VIPs(ctx context.Context, name string) ([]netip.Addr, error) {
	s, err := l.Kube.CoreV1().Services(workloads).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var vips []netip.Addr
	for _, i := range s.Status.LoadBalancer.Ingress {
		a, err := netip.ParseAddr(i.IP)
		if err != nil {
			return nil, fmt.Errorf("service %s: %w", name, err)
		}
		vips = append(vips, a)
	}
	slices.SortFunc(vips, netip.Addr.Compare)
	return vips, nil
}

// RemoveService deletes a Service and waits until it is gone.
func (l *Lab) RemoveService(ctx context.Context, name string) error {
	if err := l.Kube.CoreV1().Services(workloads).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return Within(ctx, 20*time.Second, func(ctx context.Context) error {
		_, err := l.Kube.CoreV1().Services(workloads).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("service %s is still there", name)
		}
		return nil
	})
}

// VIPPrefix is a VIP as routers write it.
func VIPPrefix(vip netip.Addr) netip.Prefix { return netip.PrefixFrom(vip, vip.BitLen()) }

// WaitAnnounced waits until the kernel of every router that has machines of its
// own reaches a VIP through exactly those machines of its racks; none given means all.
func (l *Lab) WaitAnnounced(ctx context.Context, vip netip.Addr, machines ...string) error {
	if len(machines) == 0 {
		for _, m := range l.Topology.Machines() {
			machines = append(machines, m.Name)
		}
	}
	return Within(ctx, 20*time.Second, func(ctx context.Context) error {
		var wrong []error
		for _, r := range l.Topology.speakers() {
			wrong = append(wrong, l.announced(ctx, r.Name, vip, machines))
		}
		return errors.Join(wrong...)
	})
}

// WaitServed waits until a VIP answers the client from wherever its requests go,
// which is once kube-proxy has heard of it too.
func (l *Lab) WaitServed(ctx context.Context, vip netip.Addr) error {
	return l.WaitServedFrom(ctx, clientHost, vip)
}

// WaitServedFrom is WaitServed for another host of the lab than the outside client.
func (l *Lab) WaitServedFrom(ctx context.Context, host string, vip netip.Addr) error {
	return Within(ctx, 20*time.Second, func(ctx context.Context) error {
		for range 30 {
			if _, err := l.GetFrom(ctx, host, URL(vip, WebPort)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *Lab) announced(ctx context.Context, router string, vip netip.Addr, machines []string) error {
	want := l.Topology.localHops(router, vip, machines)
	if len(want) == 0 {
		return nil // it hears of the VIP from other routers, if at all
	}
	have, err := l.NextHops(ctx, router, VIPPrefix(vip))
	if err == nil && !slices.Equal(have, want) {
		err = fmt.Errorf("router %s reaches %s via %v, want %v", router, vip, have, want)
	}
	return err
}

// localHops are the addresses of those machines that are in a rack of the router,
// in the family of the VIP, sorted.
func (t Topology) localHops(router string, vip netip.Addr, machines []string) []netip.Addr {
	var hops []netip.Addr
	for _, m := range machines {
		rack, _ := t.RackOf(m)
		if !slices.Contains(rack.Routers, router) {
			continue
		}
		hop := t.MachineAddress(m).V4
		if vip.Is6() {
			hop = t.MachineAddress(m).V6
		}
		hops = append(hops, hop)
	}
	slices.SortFunc(hops, netip.Addr.Compare)
	return hops
}

// WaitGone waits until no router's kernel knows the VIP.
func (l *Lab) WaitGone(ctx context.Context, vip netip.Addr) error {
	return Within(ctx, 20*time.Second, func(ctx context.Context) error {
		var wrong []error
		for _, r := range l.Topology.Routers {
			have, err := l.NextHops(ctx, r.Name, VIPPrefix(vip))
			if err == nil && len(have) > 0 {
				err = fmt.Errorf("router %s still reaches %s via %v", r.Name, vip, have)
			}
			wrong = append(wrong, err)
		}
		return errors.Join(wrong...)
	})
}
