package takeover

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// TestATakeoverFromKubeVIPsARPModeMovesNoAddressAndBreaksNoConnection begins where its DaemonSet has been deleted, as
// docs/guides/migrate-on-link.md has it: the Service has its address in annotation and status, and the address is on an
// interface, whose kernel answers. kube-vip itself does not run here.
func TestATakeoverFromKubeVIPsARPModeMovesNoAddressAndBreaksNoConnection(t *testing.T) {
	const service = "held"
	l := homeWithoutPlinth(t)
	vip, machine := lab.LANPool4.From().Next().Next(), l.Topology.Machines()[1].Name
	onInterface := func(how string) {
		must(t, netns.IP(l.Namespace(machine), fmt.Sprintf("addr %s %s dev %s", how, lab.VIPPrefix(vip), lab.RackInterface)))
	}
	s := story.IPv4Alone(lab.LoadBalancer(service, ""))
	s.Annotations = map[string]string{"kube-vip.io/loadbalancerIPs": vip.String(), "kube-vip.io/vipHost": machine}
	shown := make(chan error, 1)
	go func() { shown <- showStatus(t.Context(), l, service, vip) }()
	_, err := l.ExposeOutside(t.Context(), s, l.Topology.RouterAddress(lab.HomeGateway, story.Shelf))
	must(t, err)
	must(t, <-shown)
	onInterface("add")
	must(t, l.WaitServedFrom(t.Context(), lab.Phone, vip))
	was := map[netip.Addr]string{vip: machine}
	watch := watchHome(t, l, was)

	_, err = l.Kubectl(t.Context(), "annotate", "service", "--overwrite", service, "plinth.dev/home="+machine)
	must(t, err)
	startPlinth(t, l, 1)
	must(t, lab.Within(t.Context(), 40*time.Second, func(ctx context.Context) error {
		return story.InStatus(ctx, l, "default/"+service, string(lb.AddressOnInterface))
	}))
	onInterface("del")
	story.PauseFor(t, 15*time.Second) // longer than a host trusts its cache without an answer

	watch()
	story.Stays(t, l, was)
	keeps(t, l, map[netip.Addr]string{vip: service})
}

// showStatus gives a Service an address in its status, as kube-vip does, once there is the Service.
func showStatus(ctx context.Context, l *lab.Lab, service string, vip netip.Addr) error {
	return lab.Within(ctx, 10*time.Second, func(ctx context.Context) error {
		services := l.Kube.CoreV1().Services(metav1.NamespaceDefault)
		s, err := services.Get(ctx, service, metav1.GetOptions{})
		if err == nil {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: vip.String()}}
			_, err = services.UpdateStatus(ctx, s, metav1.UpdateOptions{})
		}
		return err
	})
}
