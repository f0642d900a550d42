package vip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

const (
	parentLeft        = "released" // value of service-uid when others hold the VIP and the parent does not
	claimAttempts     = 8
	claimWorkers      = 16 // how many objects are written at once, where many have to be
	claimSelector     = networkingv1.LabelManagedBy + "=" + lb.ManagedBy
	resourceOfService = "services"
)

// errContended is what comes of losing every race for an address.
var errContended = errors.New("other programs keep taking or changing the addresses")

// claim is an IPAddress object of ours.
type claim struct {
	uid             types.UID
	resourceVersion string
	created         time.Time
	parent          lb.ServiceKey
	serviceUID      types.UID // of the parent
	pool            string
	holders         []lb.ServiceKey // sorted
}

func (c claim) heldBy(k lb.ServiceKey) bool { return slices.Contains(c.holders, k) }

// isOfAnother reports whether the parent k of the claim is known to be another Service
// than the one of that UID.
func (c claim) isOfAnother(k lb.ServiceKey, uid types.UID) bool {
	known := func(u types.UID) bool { return u != "" && u != parentLeft }
	return k == c.parent && known(uid) && known(c.serviceUID) && uid != c.serviceUID
}

// uidWith is what service-uid says once k has that UID.
func (c claim) uidWith(k lb.ServiceKey, uid types.UID) types.UID {
	if k == c.parent {
		return uid
	}
	return c.serviceUID
}

// claimFormat is an error where a newer version wrote an IPAddress object of ours: who holds
// the address cannot be told then, so that nothing is given or taken away by it.
func claimFormat(obj *networkingv1.IPAddress) error {
	if obj.Labels[networkingv1.LabelManagedBy] != lb.ManagedBy {
		return nil
	}
	return inventory.CheckFormat("ipaddress "+obj.Name, obj.Annotations, lb.ClaimFormat)
}

// readClaim reads an IPAddress object; ours is false if another program made it.
func readClaim(obj *networkingv1.IPAddress) (c claim, ours bool) {
	if obj.Labels[networkingv1.LabelManagedBy] != lb.ManagedBy || obj.Spec.ParentRef == nil || obj.Spec.ParentRef.Resource != resourceOfService {
		return claim{}, false
	}
	c = claim{
		uid:             obj.UID,
		resourceVersion: obj.ResourceVersion,
		created:         obj.CreationTimestamp.Time,
		parent:          lb.ServiceKey{Namespace: obj.Spec.ParentRef.Namespace, Name: obj.Spec.ParentRef.Name},
		serviceUID:      types.UID(obj.Annotations[lb.ServiceUIDAnnotation]),
		pool:            obj.Annotations[ipam.PoolAnnotation],
	}
	for s := range strings.SplitSeq(obj.Annotations[lb.SharedByAnnotation], ",") {
		if k, ok := parseKey(s); ok {
			c.holders = append(c.holders, k)
		}
	}
	if len(c.holders) == 0 {
		c.holders = []lb.ServiceKey{c.parent}
	}
	return c, true
}

// newClaim is the object by which a Service holds a. The API server's own controllers
// leave alone what another program's label is on. parentRef cannot be changed, so where
// [lb.SharedByAnnotation] is there, it alone says who holds the VIP.
func newClaim(a netip.Addr, pool string, k lb.ServiceKey, uid types.UID) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name:        a.String(),
			Labels:      map[string]string{networkingv1.LabelManagedBy: lb.ManagedBy, networkingv1.LabelIPAddressFamily: lb.FamilyOf(a).String()},
			Annotations: map[string]string{lb.ServiceUIDAnnotation: string(uid), ipam.PoolAnnotation: pool, inventory.AnnotationFormat: strconv.Itoa(lb.ClaimFormat)},
		},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: resourceOfService, Namespace: k.Namespace, Name: k.Name},
		},
	}
}

// acquire has the API server record that a Service holds a. It reports false if somebody
// else does; the ledger then knows.
func (b *Controller) acquire(ctx context.Context, a netip.Addr, pool string, k lb.ServiceKey, uid types.UID) (bool, error) {
	defer b.alone(a)()
	for range claimAttempts {
		c, known := b.claimToAcquire(a, k)
		var err error
		switch {
		case !known:
			err = b.create(ctx, a, pool, k, uid)
		case !c.heldBy(k) && b.isReleased(a):
			if err = b.deleteObject(ctx, a, c); err == nil {
				continue
			}
		case !c.heldBy(k):
			if !b.mayJoin(a, k) {
				return false, nil
			}
			err = b.annotate(ctx, a, c, with(c.holders, k), c.uidWith(k, uid))
		case c.uidWith(k, uid) != c.serviceUID:
			if err := b.confirm(ctx, k, uid); err != nil {
				return false, err
			}
			err = b.annotate(ctx, a, c, c.holders, uid)
		default:
			return true, nil
		}
		if err == nil {
			return true, nil
		}
		if err := b.reconsider(ctx, a, err); err != nil {
			return false, err
		}
		if b.isForeign(a) {
			return false, nil
		}
	}
	return false, errContended
}

// confirm asks the API server whether a Service still is the one of that UID: a
// process that was stopped for a while may know an earlier one of its name.
func (b *Controller) confirm(ctx context.Context, k lb.ServiceKey, uid types.UID) error {
	svc, err := b.cluster.Client.CoreV1().Services(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if err == nil && svc.UID != uid {
		err = staleService(k)
	}
	return err
}

// staleService is the error of whoever acts on a Service that is another one by now.
func staleService(k lb.ServiceKey) error {
	return apierrors.NewConflict(v1.Resource(resourceOfService), k.String(), errOtherService)
}

var errOtherService = errors.New("there is another Service of that name now, or it holds its VIP anew")

// relinquishAs has the API server record that the Service of that UID, or any of its
// name, no longer holds a, and the ledger release it. What another Service of the name
// holds is left alone: it then reports false. So is a claim that was made after the call:
// it is not the one that was to go.
func (b *Controller) relinquishAs(ctx context.Context, a netip.Addr, k lb.ServiceKey, uid types.UID) (bool, error) {
	before, _ := b.claimOf(a)
	defer b.alone(a)()
	for range claimAttempts {
		c, known := b.claimOf(a)
		if !known || !c.heldBy(k) {
			b.release(a, k)
			return true, nil
		}
		if c.isOfAnother(k, uid) {
			return false, nil
		}
		if before.uid != "" && (c.uid != before.uid || c.isOfAnother(k, before.serviceUID)) {
			return false, staleService(k)
		}
		rest := without(c.holders, k)
		if len(rest) == 0 {
			if rest = b.releaseKeepingObject(a, k); len(rest) == 0 {
				return true, nil
			}
		}
		if err := b.reconsider(ctx, a, b.annotate(ctx, a, c, rest, c.uidWith(k, parentLeft))); err != nil {
			return false, err
		}
	}
	return false, errContended
}

// reconsider looks at the object anew when a write failed because it is not what
// we thought. Any other failure it returns.
func (b *Controller) reconsider(ctx context.Context, a netip.Addr, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return b.look(ctx, a)
	}
	return fmt.Errorf("claim of %v: %w", a, err)
}

// look reads one object live.
func (b *Controller) look(ctx context.Context, a netip.Addr) error {
	obj, err := b.cluster.Client.NetworkingV1().IPAddresses().Get(ctx, a.String(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		b.vanished(a, "")
		return nil
	case err != nil:
		return fmt.Errorf("claim of %v: %w", a, err)
	}
	b.learn(a, obj, true)
	return nil
}

func (b *Controller) create(ctx context.Context, a netip.Addr, pool string, k lb.ServiceKey, uid types.UID) error {
	obj, err := b.cluster.Client.NetworkingV1().IPAddresses().Create(ctx, newClaim(a, pool, k, uid), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	b.wrote(a, obj)
	return nil
}

// annotate writes who holds a, if the object is still what we think it is.
func (b *Controller) annotate(ctx context.Context, a netip.Addr, c claim, holders []lb.ServiceKey, uid types.UID) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": c.uid, "resourceVersion": c.resourceVersion,
		"annotations": map[string]string{lb.SharedByAnnotation: joined(holders), lb.ServiceUIDAnnotation: string(uid)},
	}})
	if err != nil {
		return err
	}
	obj, err := b.cluster.Client.NetworkingV1().IPAddresses().Patch(ctx, a.String(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	b.wrote(a, obj)
	return nil
}

// deleteObject deletes the object, if it is still what we think it is.
func (b *Controller) deleteObject(ctx context.Context, a netip.Addr, c claim) error {
	err := b.cluster.Client.NetworkingV1().IPAddresses().Delete(ctx, a.String(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &c.uid, ResourceVersion: &c.resourceVersion},
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claims[a].uid == c.uid { // or else somebody took it meanwhile
		delete(b.claims, a)
		delete(b.released, a)
	}
	return nil
}

func (b *Controller) claimOf(a netip.Addr) (claim, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.claims[a]
	return c, ok
}

func (b *Controller) isForeign(a netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.foreign[a]
}

// mayJoin reports whether the ledger lets the Service hold a beside the others.
func (b *Controller) mayJoin(a netip.Addr, k lb.ServiceKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, _ := b.ledger.Claim(a)
	for _, h := range c.Holders {
		if h.Service == k {
			return b.ledger.MayJoin(a, h) == ""
		}
	}
	return false
}

// wrote remembers what the API server answered to a write of ours, unless a later object
// is known already. No watch tells it again, so the ledger follows here.
func (b *Controller) wrote(a netip.Addr, obj *networkingv1.IPAddress) {
	c, ours := readClaim(obj)
	if !ours {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, known := b.claims[a]; known && newer(old.resourceVersion, c.resourceVersion) {
		return
	}
	delete(b.released, a)
	b.enterAll(a, c)
}

func with(holders []lb.ServiceKey, k lb.ServiceKey) []lb.ServiceKey {
	all := append(slices.Clone(holders), k)
	slices.SortFunc(all, func(x, y lb.ServiceKey) int { return strings.Compare(x.String(), y.String()) })
	return slices.Compact(all)
}

func without[T comparable](all []T, some ...T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return slices.Contains(some, x) })
}

func joined(holders []lb.ServiceKey) string {
	var s []string
	for _, h := range holders {
		s = append(s, h.String())
	}
	return strings.Join(s, ",")
}
