package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// Client reads and writes claims, and what is written down of released ones.
type Client struct {
	Kube      kubernetes.Interface
	Namespace string // of ConfigMap plinth-released
}

// List lists the IPAddress objects of ours, live.
func (c Client) List(ctx context.Context) (*networkingv1.IPAddressList, error) {
	return c.Kube.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: Selector})
}

// Get reads one object, live.
func (c Client) Get(ctx context.Context, a netip.Addr) (*networkingv1.IPAddress, error) {
	return c.Kube.NetworkingV1().IPAddresses().Get(ctx, a.String(), metav1.GetOptions{})
}

// Create creates the object by which a Service holds an address. homes are those of a VIP on a link; empty:
// it has none.
func (c Client) Create(ctx context.Context, a netip.Addr, pool string, k lb.ServiceKey, uid, homes string) (*networkingv1.IPAddress, error) {
	obj := New(a, pool, k, uid)
	if homes != "" {
		obj.Annotations[lb.HomesAnnotation] = homes
	}
	return c.Kube.NetworkingV1().IPAddresses().Create(ctx, obj, metav1.CreateOptions{})
}

// SetHomes writes the machines that are to answer for a VIP on a link, if its object is still as it is
// known; empty: it is on no link any more.
func (c Client) SetHomes(ctx context.Context, o ipam.Object, homes string) (*networkingv1.IPAddress, error) {
	metadata := map[string]any{"uid": o.UID, "resourceVersion": o.Version, "annotations": map[string]any{lb.HomesAnnotation: homes}}
	if homes == "" { // null takes them off
		metadata["annotations"], metadata["labels"] = map[string]any{lb.HomesAnnotation: nil}, map[string]any{lb.OwnerLabel: nil}
	}
	return c.patch(ctx, o.Addr.String(), metadata)
}

// Update writes the holders of an address into its object, if that is still as it is known.
func (c Client) Update(ctx context.Context, write ipam.Write) (*networkingv1.IPAddress, error) {
	annotations := map[string]string{lb.SharedByAnnotation: joined(write.Holders), lb.ServiceUIDAnnotation: write.ParentUID}
	if write.Renew {
		annotations = map[string]string{lb.RenewedAnnotation: write.Object.Version} // what it was: never twice the same
	}
	return c.patch(ctx, write.Object.Addr.String(), map[string]any{
		"uid": write.Object.UID, "resourceVersion": write.Object.Version, "annotations": annotations,
	})
}

// Label puts the label of a claim back on an object, if that is still as it was read.
func (c Client) Label(ctx context.Context, obj *networkingv1.IPAddress) (*networkingv1.IPAddress, error) {
	return c.patch(ctx, obj.Name, map[string]any{
		"uid": obj.UID, "resourceVersion": obj.ResourceVersion, "labels": map[string]string{networkingv1.LabelManagedBy: lb.ManagedBy},
	})
}

func (c Client) patch(ctx context.Context, name string, metadata map[string]any) (*networkingv1.IPAddress, error) {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, fmt.Errorf("claim of %s: %w", name, err)
	}
	return c.Kube.NetworkingV1().IPAddresses().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// Follow calls gone once an address has no object any more, whosever it was, or ctx ends.
func (c Client) Follow(ctx context.Context, a netip.Addr, gone func()) {
	objects := c.Kube.NetworkingV1().IPAddresses()
	one := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", a.String()).String()
	}
	listing := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			one(&o)
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			one(&o)
			return objects.Watch(ctx, o)
		},
	}
	_, _ = watchtools.UntilWithSync(ctx, cache.ToListWatcherWithWatchListSemantics(listing, c.Kube), &networkingv1.IPAddress{}, func(s cache.Store) (bool, error) {
		return len(s.List()) == 0, nil
	}, func(e watch.Event) (bool, error) {
		return e.Type == watch.Deleted, nil
	})
	gone()
}

// Delete deletes an object, if it is still as it is known.
func (c Client) Delete(ctx context.Context, o ipam.Object) error {
	uid := types.UID(o.UID)
	return c.Kube.NetworkingV1().IPAddresses().Delete(ctx, o.Addr.String(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &o.Version},
	})
}
