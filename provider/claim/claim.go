package claim

import (
	"net/netip"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

const (
	// Selector selects the IPAddress objects that are Plinth's.
	Selector = networkingv1.LabelManagedBy + "=" + lb.ManagedBy

	resourceOfService = "services"
)

// CheckFormat is an error where a newer version wrote an IPAddress object of ours: who holds
// the address cannot be told then, so that nothing is given or taken away by it.
func CheckFormat(obj *networkingv1.IPAddress) error {
	if obj.Labels[networkingv1.LabelManagedBy] != lb.ManagedBy {
		return nil
	}
	return inventory.CheckFormat("ipaddress "+obj.Name, obj.Annotations, lb.ClaimFormat)
}

// Read reads an IPAddress object; ours is false if another program made it, or it is of no
// address.
func Read(obj *networkingv1.IPAddress) (object ipam.Object, ours bool) {
	a, err := netip.ParseAddr(obj.Name)
	if err != nil || obj.Labels[networkingv1.LabelManagedBy] != lb.ManagedBy || obj.Spec.ParentRef == nil || obj.Spec.ParentRef.Resource != resourceOfService {
		return ipam.Object{Addr: a}, false
	}
	object = ipam.Object{
		Addr:      a,
		UID:       string(obj.UID),
		Version:   obj.ResourceVersion,
		Created:   obj.CreationTimestamp.Time,
		Pool:      obj.Annotations[ipam.PoolAnnotation],
		Parent:    lb.ServiceKey{Namespace: obj.Spec.ParentRef.Namespace, Name: obj.Spec.ParentRef.Name},
		ParentUID: obj.Annotations[lb.ServiceUIDAnnotation],
		Homes:     obj.Annotations[lb.HomesAnnotation],
		Owner:     obj.Labels[lb.OwnerLabel],
	}
	for s := range strings.SplitSeq(obj.Annotations[lb.SharedByAnnotation], ",") {
		if k, ok := lb.ParseServiceKey(s); ok {
			object.Holders = append(object.Holders, k)
		}
	}
	if len(object.Holders) == 0 {
		object.Holders = []lb.ServiceKey{object.Parent}
	}
	return object, true
}

// LostLabel reports whether an object is a claim of Plinth's that somebody took the label off:
// no other program writes its annotations. It is Plinth's still.
func LostLabel(obj *networkingv1.IPAddress) bool {
	_, held := obj.Annotations[lb.ServiceUIDAnnotation]
	return held && obj.Labels[networkingv1.LabelManagedBy] == "" && obj.Spec.ParentRef != nil && obj.Spec.ParentRef.Resource == resourceOfService
}

// New returns the object by which a Service holds an address. The API server's own controllers
// leave alone what another program's label is on. parentRef cannot be changed, so where
// [lb.SharedByAnnotation] is there, it alone says who holds the VIP.
func New(a netip.Addr, pool string, key lb.ServiceKey, uid string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name:        a.String(),
			Labels:      map[string]string{networkingv1.LabelManagedBy: lb.ManagedBy, networkingv1.LabelIPAddressFamily: lb.FamilyOf(a).String()},
			Annotations: map[string]string{lb.ServiceUIDAnnotation: uid, ipam.PoolAnnotation: pool, inventory.AnnotationFormat: strconv.Itoa(lb.ClaimFormat)},
		},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: resourceOfService, Namespace: key.Namespace, Name: key.Name},
		},
	}
}

// joined prints holders as [lb.SharedByAnnotation] has them.
func joined(holders []lb.ServiceKey) string {
	return strings.Join(inventory.Strings(holders), ",")
}
