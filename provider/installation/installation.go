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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"plinth.dev/plinth/inventory/source"
)

// DefaultLease is the name of the controllers' lease, unless --leader-elect-resource-name gives another.
const DefaultLease = "cloud-controller-manager"

// AnnotationMovedTo on the ConfigMap [source.AcceptedName] names the namespace that the installation
// was moved to. What is stored beside it counts no more, and agents that have not been replaced yet
// may still read it.
const AnnotationMovedTo = "plinth.dev/moved-to"

// movedPrefix begins the holder of a lease that is parked; the namespace follows that it was moved to.
const movedPrefix = "moved-to-"

// Installation is what a namespace has of Plinth.
type Installation struct {
	Namespace  string
	Holder     string // of the lease; empty: nobody, or no lease
	Program    string // that wrote the holder of the lease, as the API server knows it; empty: that is not known
	Generation string // of the inventory in force; empty: none was accepted
	MovedTo    string // namespace that it was moved to; empty: it was not

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

// Find returns the installations of a cluster, by namespace: each namespace with a lease of that name
// or an accepted inventory. It makes two lists, each of the objects of one name.
func Find(ctx context.Context, client kubernetes.Interface, lease string) ([]Installation, error) {
	leases, err := client.CoordinationV1().Leases("").List(ctx, named(lease))
	if err != nil {
		return nil, fmt.Errorf("which namespaces have a lease %s: %w", lease, err)
	}
	accepted, err := client.CoreV1().ConfigMaps("").List(ctx, named(source.AcceptedName))
	if err != nil {
		return nil, fmt.Errorf("which namespaces have a configmap %s: %w", source.AcceptedName, err)
	}
	found := map[string]*Installation{}
	in := func(namespace string) *Installation {
		if found[namespace] == nil {
			found[namespace] = &Installation{Namespace: namespace}
		}
		return found[namespace]
	}
	for i := range leases.Items {
		if l := &leases.Items[i]; l.Name == lease {
			in(l.Namespace).ReadLease(l)
		}
	}
	for i := range accepted.Items {
		if cm := &accepted.Items[i]; cm.Name == source.AcceptedName {
			in(cm.Namespace).readAccepted(cm)
		}
	}
	var all []Installation
	for _, namespace := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[namespace])
	}
	return all, nil
}

func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

// ownPrograms is what the names of Plinth's programs begin with, by which an API server knows who wrote an object.
const ownPrograms = "plinth-"

// OtherProgram returns the program that holds the lease where that is none of Plinth's; empty: it is, or that is not known.
func (i Installation) OtherProgram() string {
	if i.Holder == "" || i.parkedFor() != "" || strings.HasPrefix(i.Program, ownPrograms) {
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

// ReadLease takes in what the lease of an installation says.
func (i *Installation) ReadLease(l *coordinationv1.Lease) {
	i.Holder, i.Program = ptr.Deref(l.Spec.HolderIdentity, ""), writerOf(l)
	i.Renewed = ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{}).Time
	i.Lasts = time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
}

func (i *Installation) readAccepted(cm *v1.ConfigMap) {
	i.Generation = cmp.Or(cm.Annotations[source.AnnotationGeneration], "unknown")
	i.MovedTo = cm.Annotations[AnnotationMovedTo]
}
