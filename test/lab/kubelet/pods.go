package kubelet

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ReadyAnnotation set to "false" makes a running pod unready, as a failing readiness probe would.
const ReadyAnnotation = "lab.plinth.dev/ready"

// ReadyAfterAnnotation is how long after its start a pod becomes ready.
const ReadyAfterAnnotation = "lab.plinth.dev/ready-after"

// readyIn is how long it takes until a pod is ready; 0 or less: it is.
func readyIn(p *corev1.Pod, started time.Time) time.Duration {
	after, err := time.ParseDuration(p.Annotations[ReadyAfterAnnotation])
	if err != nil {
		return 0
	}
	return time.Until(started.Add(after))
}

// pod is a Pod that runs here.
type pod struct {
	key       string // namespace/name
	uid       string
	netns     string       // of its own; empty: the machine's
	addresses []netip.Addr // one per family
	server    *server
	started   metav1.Time
	exitsAt   time.Time // when its program exits; zero: it was not told to
	exited    time.Time // when it did, and the namespace went with it; zero: it runs
}

// syncPods makes what runs here what the API server says.
func (k *kubelet) syncPods(ctx context.Context) {
	list, err := k.bound.Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		k.Log.Error("listing pods", "err", err)
		return
	}
	wanted := map[string]bool{}
	for _, p := range list {
		wanted[string(p.UID)] = true
	}
	for uid, running := range k.pods {
		if !wanted[uid] {
			k.kill(running)
		}
	}
	for _, p := range list {
		if err := k.syncPod(ctx, p); err != nil && !apierrors.IsNotFound(err) {
			k.Log.Error("pod", "pod", p.Namespace+"/"+p.Name, "err", err)
		}
	}
}

func (k *kubelet) syncPod(ctx context.Context, p *corev1.Pod) error {
	running := k.pods[string(p.UID)]
	if p.DeletionTimestamp != nil {
		return k.terminate(ctx, p, running)
	}
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return nil
	}
	if p.Spec.HostNetwork && p.Annotations[BesideAnnotation] != "" {
		return k.reportBeside(ctx, p)
	}
	if p.Spec.HostNetwork {
		return k.reject(ctx, p, "the lab runs no pods in a machine's own network namespace")
	}
	if running == nil {
		cidrs := k.podCIDRs()
		if len(cidrs) == 0 {
			return nil // the Node's podCIDRs will mark us
		}
		var err error
		if running, err = k.run(p, cidrs); err != nil {
			return err
		}
	}
	return k.reportPod(ctx, p, running)
}

// run gives a pod its namespace, addresses and server.
func (k *kubelet) run(p *corev1.Pod, cidrs []netip.Prefix) (*pod, error) {
	running := &pod{
		key:       p.Namespace + "/" + p.Name,
		uid:       string(p.UID),
		netns:     PodNetns(k.Netns, p.Namespace, p.Name),
		addresses: k.allocate(p, cidrs),
		started:   metav1.Now(),
	}
	if err := k.bridge(cidrs); err != nil {
		return nil, err
	}
	if err := k.join(running, cidrs); err != nil {
		return nil, errors.Join(err, k.leave(running))
	}
	var err error
	running.server, err = serve(running.netns, portsOf(p), Answer{Node: k.Node, Pod: p.Name})
	if err != nil {
		return nil, errors.Join(err, k.leave(running))
	}
	k.pods[running.uid] = running
	k.Log.Info("pod runs", "pod", running.key, "addresses", running.addresses)
	return running, nil
}

// allocate returns one address per family, the same host number in each: those
// that the pod had before this kubelet started, or the next that are free.
func (k *kubelet) allocate(p *corev1.Pod, cidrs []netip.Prefix) []netip.Addr {
	var old []netip.Addr
	for i, ip := range p.Status.PodIPs {
		a, err := netip.ParseAddr(ip.IP)
		if err == nil && i < len(cidrs) && cidrs[i].Contains(a) {
			old = append(old, a)
		}
	}
	if len(old) == len(cidrs) {
		return old
	}
	taken := map[netip.Addr]bool{}
	for _, other := range k.pods {
		taken[other.addresses[0]] = true
	}
	for _, other := range k.boundAddresses() {
		taken[other] = true
	}
	for range 250 {
		if k.last++; k.last < 2 || k.last > 251 {
			k.last = 2 // the first address is the gateway's
		}
		if !taken[host(cidrs[0], k.last)] {
			break
		}
	}
	var fresh []netip.Addr
	for _, c := range cidrs {
		fresh = append(fresh, host(c, k.last))
	}
	return fresh
}

// boundAddresses are the addresses that pods on this machine report, also those
// that this kubelet has not taken up again yet.
func (k *kubelet) boundAddresses() []netip.Addr {
	list, _ := k.bound.Core().V1().Pods().Lister().List(labels.Everything()) // from memory: never fails
	var addresses []netip.Addr
	for _, p := range list {
		for _, ip := range p.Status.PodIPs {
			if a, err := netip.ParseAddr(ip.IP); err == nil {
				addresses = append(addresses, a)
			}
		}
	}
	return addresses
}

// host is address number n of a prefix.
func host(p netip.Prefix, n int) netip.Addr {
	a := p.Masked().Addr()
	for range n {
		a = a.Next()
	}
	return a
}

// portsOf returns the TCP and UDP ports of all containers; 8080 of both where none is told.
func portsOf(p *corev1.Pod) ports {
	var list ports
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if strings.EqualFold(string(port.Protocol), "UDP") {
				list.udp = append(list.udp, port.ContainerPort)
			} else {
				list.tcp = append(list.tcp, port.ContainerPort)
			}
		}
	}
	if len(list.tcp)+len(list.udp) == 0 {
		return ports{tcp: []int32{8080}, udp: []int32{8080}}
	}
	return list
}
