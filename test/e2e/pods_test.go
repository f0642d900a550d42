package e2e

import (
	"net/netip"
	"testing"

	"plinth.dev/plinth/test/lab"
)

func TestPodsReachEachOtherWithinARackAndAcrossRacksInBothFamilies(t *testing.T) {
	l := shared(t)
	web(t, l, "mesh", 4)
	pods, err := l.Pods(t.Context(), "mesh")
	must(t, err)
	for _, from := range pods {
		for _, to := range pods {
			if len(to.Status.PodIPs) != 2 {
				t.Fatalf("pod %s has addresses %v, want one per family", to.Name, to.Status.PodIPs)
			}
			for i, ip := range to.Status.PodIPs {
				answer, err := l.GetFromPod(t.Context(), from.Spec.NodeName, from.Namespace, from.Name, lab.URL(netip.MustParseAddr(ip.IP), 8080))
				if err != nil {
					t.Errorf("from the pod on %s to %s on %s: %v", from.Spec.NodeName, ip.IP, to.Spec.NodeName, err)
					continue
				}
				if want := from.Status.PodIPs[i].IP; answer.Client != want {
					t.Errorf("the pod on %s saw a request of %s come from %s: something rewrote it", to.Spec.NodeName, want, answer.Client)
				}
			}
		}
	}
}
