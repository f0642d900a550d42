package kubelet

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BesideAnnotation on a pod of the machine's own network says that what it runs was started beside
// this kubelet: it reports the pod, and forwards to its ports.
const BesideAnnotation = "lab.plinth.dev/runs-beside"

// reportBeside says that a pod runs, once the machine has the addresses that are the pod's, too.
func (k *kubelet) reportBeside(ctx context.Context, p *corev1.Pod) error {
	running := k.pods[string(p.UID)]
	if running == nil {
		var addresses []netip.Addr
		_, own := k.hostIPs()
		for _, ip := range own {
			if a, err := netip.ParseAddr(ip.IP); err == nil {
				addresses = append(addresses, a)
			}
		}
		if len(addresses) == 0 {
			return nil // the Node's addresses will mark us
		}
		running = &pod{key: p.Namespace + "/" + p.Name, uid: string(p.UID), addresses: addresses, server: new(server), started: metav1.Now()}
		k.pods[running.uid] = running
	}
	return k.reportPod(ctx, p, running)
}
