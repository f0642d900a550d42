package installation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"plinth.dev/plinth/inventory/source"
)

// AnnotationMovedTo on the ConfigMap [source.AcceptedName] names the namespace that the installation
// was moved to. What is stored beside it counts no more, and agents that have not been replaced yet
// may still read it.
const AnnotationMovedTo = "plinth.dev/moved-to"

// movedPrefix begins the holder of a lease that is parked; the namespace follows that it was moved to.
const movedPrefix = "moved-to-"

// Installation is the installation of Plinth in a namespace.
type Installation struct {
	Namespace  string
	Lease      string // the name of that which it runs on; empty: there is none
	Holder     string // of the lease; empty: nobody, or no lease
	Program    string // that wrote the holder of the lease, as the API server knows it; empty: that is not known
	Generation string // of the inventory in force; empty: none was accepted
	MovedTo    string // namespace that it was moved to; empty: it was not

	signed string // program that is its own, whatever it is called; empty: none but Plinth's

	Renewed time.Time     // of the lease, by its holder's clock
	Lasts   time.Duration // for which the lease is held without being renewed
}

// established reports whether the namespace has what the cluster runs on.
func (i Installation) established() bool { return i.Generation != "" && i.MovedTo == "" }

// parkedFor returns the namespace that the lease is parked for; empty: it is not.
func (i Installation) parkedFor() string {
	to, parked := strings.CutPrefix(i.Holder, movedPrefix)
	if !parked {
		return ""
	}
	return to
}

// Find returns the installations of a cluster, by namespace: each namespace with an accepted inventory, or with a lease that is
// called as the given one or by default. The holder is that of the lease that the installation runs on. It makes a list of the
// objects of each of these names, and one more for an installation that runs on another lease.
func Find(ctx context.Context, client kubernetes.Interface, lease string) ([]Installation, error) {
	found := map[string]*Installation{}
	in := func(namespace string) *Installation {
		if found[namespace] == nil {
			found[namespace] = &Installation{Namespace: namespace}
		}
		return found[namespace]
	}
	leases := map[types.NamespacedName]*coordinationv1.Lease{}
	for _, name := range slices.Compact([]string{source.DefaultLease, lease}) { // its own counts, where a namespace has both
		list, err := leasesNamed(ctx, client, "", name)
		if err != nil {
			return nil, fmt.Errorf("which namespaces have a lease %s: %w", name, err)
		}
		for _, l := range list {
			leases[types.NamespacedName{Namespace: l.Namespace, Name: l.Name}] = l
			if name == lease || isOurs(l) {
				in(l.Namespace).ReadLease(l)
			}
		}
	}
	accepted, err := client.CoreV1().ConfigMaps("").List(ctx, named(source.AcceptedName))
	if err != nil {
		return nil, fmt.Errorf("which namespaces have a configmap %s: %w", source.AcceptedName, err)
	}
	for i := range accepted.Items {
		if cm := &accepted.Items[i]; cm.Name == source.AcceptedName {
			in(cm.Namespace).readAccepted(cm)
			if err := in(cm.Namespace).readOwnLease(ctx, client, source.LeaseOf(cm), leases); err != nil {
				return nil, err
			}
		}
	}
	var all []Installation
	for _, namespace := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[namespace])
	}
	return all, nil
}

// isOurs reports whether a lease is none of another program, as far as that is known.
func isOurs(l *coordinationv1.Lease) bool {
	var i Installation
	i.ReadLease(l)
	return i.OtherProgram() == ""
}

// readOwnLease takes in the lease that an installation runs on, which was listed or is read now. Of one that was moved away
// nothing counts but what was listed.
func (i *Installation) readOwnLease(ctx context.Context, client kubernetes.Interface, name string, listed map[types.NamespacedName]*coordinationv1.Lease) error {
	lease := listed[types.NamespacedName{Namespace: i.Namespace, Name: name}]
	if lease == nil && name != source.DefaultLease && i.MovedTo == "" {
		var err error
		if lease, err = leaseNamed(ctx, client, i.Namespace, name); err != nil {
			return err
		}
	}
	if lease == nil {
		lease = &coordinationv1.Lease{}
	}
	i.ReadLease(lease)
	return nil
}

// leaseNamed reads a lease as a controller may, which has the right to list those of some names; nil: there is none.
func leaseNamed(ctx context.Context, client kubernetes.Interface, namespace, name string) (*coordinationv1.Lease, error) {
	list, err := leasesNamed(ctx, client, namespace, name)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the installation of namespace %s runs on lease %s, which may not be read: add that name to the resourceNames of leases in the ClusterRole of the controller "+
			"(chart: controller.leaseName); if nobody leads by it any more: kubectl -n %s annotate configmap %s %s- (%s)", namespace, name, namespace, source.AcceptedName, source.AnnotationLease, err.Error())
	case err != nil:
		return nil, fmt.Errorf("reading lease %s of namespace %s: %w", name, namespace, err)
	case len(list) == 0:
		return nil, nil
	}
	return list[0], nil
}

// leasesNamed lists the leases of a name, in one namespace or in all.
func leasesNamed(ctx context.Context, client kubernetes.Interface, namespace, name string) (out []*coordinationv1.Lease, err error) {
	list, err := client.CoordinationV1().Leases(namespace).List(ctx, named(name))
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if l := &list.Items[i]; l.Name == name { // a fake client lists all
			out = append(out, l)
		}
	}
	return out, nil
}

func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

// OtherProgram returns the program that holds the lease where that does not lead the installation; empty: it may, or that is not
// known. One that links the provider writes its name beside what is accepted before it acts.
func (i Installation) OtherProgram() string {
	if i.Holder == "" || i.parkedFor() != "" || source.IsOwnProgram(i.Program) || i.Program == i.signed {
		return ""
	}
	return i.Program
}

// writerOf is the program that wrote the holder of a lease; empty: that is not known.
func writerOf(l *coordinationv1.Lease) string {
	for _, f := range l.ManagedFields {
		if f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), "f:holderIdentity") {
			return f.Manager
		}
	}
	return ""
}

// ReadLease takes in the lease of an installation.
func (i *Installation) ReadLease(l *coordinationv1.Lease) {
	i.Lease = l.Name
	i.Holder, i.Program = ptr.Deref(l.Spec.HolderIdentity, ""), writerOf(l)
	i.Renewed = ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{}).Time
	i.Lasts = time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
}

func (i *Installation) readAccepted(cm *v1.ConfigMap) {
	i.Generation = cmp.Or(cm.Annotations[source.AnnotationGeneration], "unknown")
	i.MovedTo = cm.Annotations[AnnotationMovedTo]
	i.signed = cm.Annotations[source.AnnotationProgram]
}
