package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

func TestNoVIPChangesHandsWhileTheControllerIsKilledTenTimesUnderAStreamOfServices(t *testing.T) {
	l := story.Shared(t)
	const restarts, perRestart = 10, 4
	services := l.Kube.CoreV1().Services("ccm-story")
	_, err := l.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ccm-story"}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, removeServices(context.Background(), l, "ccm-story")) })

	first := map[string]string{} // what each Service was seen with first
	look := func(ctx context.Context) error {
		list, err := services.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		holder, missing := map[string]string{}, 0
		for _, s := range list.Items {
			vips := ""
			for _, i := range s.Status.LoadBalancer.Ingress {
				if other := holder[i.IP]; other != "" {
					t.Fatalf("%s is given to %s and to %s", i.IP, other, s.Name)
				}
				holder[i.IP] = s.Name
				vips += i.IP + " "
			}
			switch {
			case first[s.Name] == "":
				first[s.Name] = vips
			case vips != first[s.Name]:
				t.Fatalf("service %s had %q and now has %q", s.Name, first[s.Name], vips)
			}
			if vips == "" {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d Services have no VIP yet", missing, len(list.Items))
		}
		return nil
	}
	for round := range restarts {
		for i := range perRestart {
			s := lab.LoadBalancer(fmt.Sprintf("s%d-%d", round, i), "nobody")
			_, err := services.Create(t.Context(), s, metav1.CreateOptions{})
			must(t, err)
		}
		must(t, l.RestartCCM(t.Context()))
		_ = look(t.Context()) // in the middle of it: nothing twice, nothing changed
	}
	must(t, lab.Within(t.Context(), 60*time.Second, look))
	if len(first) != restarts*perRestart {
		t.Errorf("%d Services were seen, want %d", len(first), restarts*perRestart)
	}
	for _, vips := range first {
		var v4, v6 string
		fmt.Sscan(vips, &v4, &v6)
		for _, vip := range []string{v4, v6} {
			if a, err := netip.ParseAddr(vip); err != nil || !(lab.PublicPool4.Contains(a) || lab.PublicPool6.Contains(a)) {
				t.Errorf("VIP %q is of no pool", vip)
			}
		}
	}
}

// removeServices deletes a namespace's Services and waits until they are gone.
func removeServices(ctx context.Context, l *lab.Lab, namespace string) error {
	if err := l.Kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return lab.Within(ctx, time.Minute, func(ctx context.Context) error {
		_, err := l.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("namespace %s is still there", namespace)
		}
		return nil
	})
}
