package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/lab/kubelet"
	"plinth.dev/plinth/test/lab/netns"
)

// outsidePort is where ServeOutside serves.
const outsidePort = 8080

type closers []io.Closer

func (c closers) Close() error {
	var err error
	for _, one := range c {
		err = errors.Join(err, one.Close())
	}
	return err
}

// ServeOutside has a host that is no machine answer as a pod does, until it is closed or this
// process ends. A Service that leads there loses nothing when a machine dies but for want of a way
// to its VIP.
func (l *Lab) ServeOutside(host string) (io.Closer, error) {
	at := fmt.Sprintf(":%d", outsidePort)
	tcp, err := netns.Listen(l.Namespace(host), at)
	if err != nil {
		return nil, err
	}
	udp, err := netns.ListenPacket(l.Namespace(host), at)
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	server := &http.Server{Handler: kubelet.Handler(kubelet.Answer{Node: host})}
	go func() { _ = server.Serve(tcp) }() // until it is closed
	go kubelet.Echo(udp)
	return closers{server, udp}, nil
}

// ExposeOutside is Expose for a Service that leads to where ServeOutside serves.
func (l *Lab) ExposeOutside(ctx context.Context, s *corev1.Service, at Dual) ([]netip.Addr, error) {
	s.Spec.Selector = nil
	for family, addr := range map[discoveryv1.AddressType]netip.Addr{discoveryv1.AddressTypeIPv4: at.V4, discoveryv1.AddressTypeIPv6: at.V6} {
		slice := outsideSlice(s, family, addr)
		if _, err := l.Kube.DiscoveryV1().EndpointSlices(workloads).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	return l.Expose(ctx, s)
}

func outsideSlice(s *corev1.Service, family discoveryv1.AddressType, at netip.Addr) *discoveryv1.EndpointSlice {
	ready, port := true, int32(outsidePort)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: s.Name + "-", Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
		},
		AddressType: family,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{at.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	for _, p := range s.Spec.Ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &port, Protocol: &protocol})
	}
	return slice
}

// RemoveOutside undoes ExposeOutside.
func (l *Lab) RemoveOutside(ctx context.Context, name string) error {
	of := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name}
	return errors.Join(
		l.RemoveService(ctx, name),
		l.Kube.DiscoveryV1().EndpointSlices(workloads).DeleteCollection(ctx, metav1.DeleteOptions{}, of))
}
