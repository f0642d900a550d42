package installation

import (
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory/source"
)

func leaseNamedOf(namespace, name, holder, program string) *coordinationv1.Lease {
	l := leaseOf(namespace, holder, 15)
	l.Name = name
	if program != "" {
		l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: program, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:holderIdentity":{}}}`)}}
	}
	return l
}

func runsOn(cm *v1.ConfigMap, lease string) *v1.ConfigMap {
	cm.Annotations[source.AnnotationLease] = lease
	return cm
}

// TestInstallationsAreFoundByTheLeaseThatTheyRunOn has k3s' controller manager in kube-system.
func TestInstallationsAreFoundByTheLeaseThatTheyRunOn(t *testing.T) {
	client := cluster(
		leaseNamedOf(older, source.DefaultLease, "nuc1_k3s", "k3s"),
		leaseNamedOf(newer, source.DefaultLease, "nuc1_before", "plinth-cloud-controller-manager"),
		leaseNamedOf(newer, "plinth", "nuc1_now", "plinth-cloud-controller-manager"), runsOn(acceptedIn(newer, "3"), "plinth"),
		leaseNamedOf("third", "its-own", "nuc2_its", ""), runsOn(acceptedIn("third", "1"), "its-own"),
		leaseNamedOf("fourth", "unknown", "nuc3_unknown", ""),
	)
	for lease, want := range map[string][]string{
		"plinth":            {"plinth-system plinth nuc1_now", "third its-own nuc2_its"},
		"another":           {"plinth-system plinth nuc1_now", "third its-own nuc2_its"},
		source.DefaultLease: {"kube-system cloud-controller-manager nuc1_k3s", "plinth-system plinth nuc1_now", "third its-own nuc2_its"},
	} {
		all, err := Find(t.Context(), client, lease)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range all {
			got = append(got, strings.Join([]string{i.Namespace, i.Lease, i.Holder}, " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("by lease %s: %q, want %q", lease, got, want)
		}
	}
}

// TestAnotherProgramInKubeSystemHoldsUpOnlyWhoWantsTheSameLease is k3s, whose own controller manager runs.
func TestAnotherProgramInKubeSystemHoldsUpOnlyWhoWantsTheSameLease(t *testing.T) {
	for lease, want := range map[string]string{source.DefaultLease: "nuc1_k3s (k3s) holds the lease of namespace kube-system", "plinth": ""} {
		g := newGuard(cluster(leaseNamedOf(older, source.DefaultLease, "nuc1_k3s", "k3s"), leaseNamedOf(newer, lease, "me", "plinth-cloud-controller-manager")), &strings.Builder{})
		g.Lease, g.LeaseIn = lease, newer
		why := g.look(t.Context())
		if (why == "") != (want == "") || !strings.Contains(why, want) || want != "" && !strings.Contains(why, "disable-cloud-controller: true") {
			t.Errorf("by lease %s: %q", lease, why)
		}
	}
}

// TestAnInstallationWithALeaseOfAnotherNameIsMoved there, and back, where the lease of before is parked.
func TestAnInstallationWithALeaseOfAnotherNameIsMoved(t *testing.T) {
	client := cluster(append(whole(), leaseNamedOf(older, "plinth", "", ""))...)
	common, err := client.CoreV1().ConfigMaps(older).Get(t.Context(), source.AcceptedName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	runsOn(common, "plinth").Annotations[source.AnnotationNextLease] = "other"
	if _, err := client.CoreV1().ConfigMaps(older).Update(t.Context(), common, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	lead := func(namespace, lease string) string {
		g := newGuard(client, &strings.Builder{})
		g.Namespace, g.LeaseIn, g.Lease = namespace, namespace, lease
		return g.look(t.Context())
	}
	if err := moveOf(client, older, newer).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	parked, err := client.CoordinationV1().Leases(older).Get(t.Context(), "plinth", metav1.GetOptions{})
	if err != nil || *parked.Spec.HolderIdentity != movedPrefix+newer {
		t.Errorf("the lease that it ran on is held by %v, %v", parked.Spec.HolderIdentity, err)
	}
	for _, lease := range []string{"plinth", "other", source.DefaultLease} {
		if why := lead(older, lease); !strings.Contains(why, "was moved to namespace plinth-system") {
			t.Errorf("by lease %s one acts where it was: %q", lease, why)
		}
	}
	if why := lead(newer, source.DefaultLease); why != "" {
		t.Errorf("none acts where it is now: %s", why)
	}
	if got, err := LeaseOf(t.Context(), client, newer); got != source.DefaultLease || err != nil {
		t.Errorf("it runs on %s there, %v", got, err)
	}
	if err := moveOf(client, newer, older).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if why := lead(older, "plinth"); why != "" {
		t.Errorf("moved back, none acts: %s", why)
	}
}

// TestAMoveIsHeldUpByWhoFollowedMeanwhile has a controller with another lease follow while that of before is parked.
func TestAMoveIsHeldUpByWhoFollowedMeanwhile(t *testing.T) {
	client := cluster(whole()...)
	move := moveOf(client, older, newer)
	move.Say = func(line string) {
		if strings.HasPrefix(line, "parked lease "+source.DefaultLease) {
			common, err := client.CoreV1().ConfigMaps(older).Get(t.Context(), source.AcceptedName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.CoreV1().ConfigMaps(older).Update(t.Context(), runsOn(common, "plinth"), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := move.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "runs on lease plinth by now") {
		t.Errorf("it is moved: %v", err)
	}
	if all := contents(t, client, newer); len(all) > 0 {
		t.Errorf("it copied %v", all)
	}
	if err := move.Run(t.Context()); err != nil {
		t.Errorf("run again: %v", err)
	}
}
