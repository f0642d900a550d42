package vip

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// The ConfigMap that keeps what rests over a restart.
const (
	releasedName = "plinth-released"
	releasedKey  = "released.json"

	releasedFormat = 1 // the number of its format

	releasedEvery = 2 * time.Second // a write at most, however many are released
	releasedMost  = 5000            // about 500 kB; for the others their objects speak
	releasedAgain = 30 * time.Second
)

// rested is how a released address is written down.
type rested struct {
	Address netip.Addr `json:"address"`
	Owner   string     `json:"owner"`
	Until   time.Time  `json:"until"`
}

// readReleased has the ledger know what rested when this process's predecessor ended.
func (b *Controller) readReleased(ctx context.Context) error {
	m, err := b.cluster.Client.CoreV1().ConfigMaps(b.options.Namespace).Get(ctx, releasedName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := inventory.CheckFormat("configmap "+releasedName, m.Annotations, releasedFormat); err != nil {
		return fmt.Errorf("which VIPs were released a moment ago is not known: %w", err)
	}
	var all []rested
	if err := json.Unmarshal([]byte(m.Data[releasedKey]), &all); err != nil {
		b.log.Error("what was released before is unreadable, and so is forgotten", "configmap", releasedName, "err", err)
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range all {
		if k, ok := parseKey(r.Owner); ok && r.Until.After(b.now()) {
			b.ledger.Rest(ipam.Rested{Addr: r.Address, Owner: k, Until: earlier(r.Until, b.now().Add(ipam.RestTime))})
		}
	}
	return nil
}

// earlier is the earlier of two times. A predecessor whose clock was ahead wrote down a
// rest that ends later than any can.
func earlier(x, y time.Time) time.Time {
	if x.Before(y) {
		return x
	}
	return y
}

// releaseKeepingObject releases an address whose object is still there. The object goes
// once it is written down that the address rests: whoever leads next knows it from one of
// the two.
// While others are about to join k it releases nothing, and returns them, sorted.
func (b *Controller) releaseKeepingObject(a netip.Addr, k lb.ServiceKey) (others []lb.ServiceKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, _ := b.ledger.Claim(a)
	for _, h := range c.Holders {
		if h.Service != k {
			others = with(others, h.Service)
		}
	}
	if _, there := b.claims[a]; len(others) == 0 && b.releaseLocked(a, k) && there {
		b.released[a] = k
	}
	return others
}

// writeReleasedSoon has what rests written down soon.
func (b *Controller) writeReleasedSoon() {
	select {
	case b.restsChanged <- struct{}{}:
	default:
	}
}

func (b *Controller) isReleased(a netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.released[a] != (lb.ServiceKey{})
}

// claimToAcquire is claimOf. An address that k released a moment ago, and whose object is
// still there, is k's again.
func (b *Controller) claimToAcquire(a netip.Addr, k lb.ServiceKey) (claim, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, known := b.claims[a]
	if known && c.heldBy(k) {
		delete(b.released, a)
	}
	return c, known
}

// keepReleased writes down what rests, at once when it changed but not too often, and
// removes the objects of what was released, until ctx ends. What there is no room for
// keeps its object until there is.
func (b *Controller) keepReleased(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.restsChanged:
		case <-again:
		}
		data, gone, full := b.releasedData()
		if again = nil; full {
			again = time.After(releasedAgain)
		}
		if err := b.writeReleased(ctx, data); err != nil {
			b.log.Error("cannot write down which VIPs were released; will try again", "err", err)
			b.writeReleasedSoon()
		} else {
			b.deleteReleasedObjects(ctx, gone)
		}
		pause := time.NewTimer(releasedEvery)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// deleteReleasedObjects deletes the objects of addresses that were released, unless they
// were acquired again.
func (b *Controller) deleteReleasedObjects(ctx context.Context, gone map[netip.Addr]lb.ServiceKey) {
	addrs := slices.SortedFunc(maps.Keys(gone), netip.Addr.Compare)
	workqueue.ParallelizeUntil(ctx, claimWorkers, len(addrs), func(i int) {
		if err := b.deleteReleasedObject(ctx, addrs[i], gone[addrs[i]]); err != nil {
			b.log.Error("cannot remove the claim of a VIP that was released; will try again", "vip", addrs[i], "err", err)
			b.writeReleasedSoon()
		}
	})
}

func (b *Controller) deleteReleasedObject(ctx context.Context, a netip.Addr, k lb.ServiceKey) error {
	defer b.occupy(k)()
	defer b.alone(a)()
	c, known := b.claimOf(a)
	if !known || !b.isReleased(a) {
		return nil
	}
	return b.reconsider(ctx, a, b.deleteObject(ctx, a, c))
}

// releasedData returns what rests as it is written down, what is released and still has
// its object though it need not, and whether there was no room for something. First
// comes what has no object any more, then what its owner could take for its own after a
// restart, since it holds another address, then what was released first.
func (b *Controller) releasedData() (data string, gone map[netip.Addr]lb.ServiceKey, full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	gone = maps.Clone(b.released)
	var order [3][]ipam.Rested
	for _, r := range b.ledger.Resting() {
		_, hasObject := gone[r.Addr]
		switch {
		case !r.Until.After(b.now()):
		case !hasObject:
			order[0] = append(order[0], r)
		case len(b.ledger.Holds(r.Owner)) > 0:
			order[1] = append(order[1], r)
		default:
			order[2] = append(order[2], r)
		}
	}
	resting := slices.Concat(order[:]...)
	room := min(releasedMost, len(resting))
	for _, r := range resting[room:] {
		delete(gone, r.Addr)
	}
	all := make([]rested, 0, room)
	for _, r := range resting[:room] {
		all = append(all, rested{Address: r.Addr, Owner: r.Owner.String(), Until: r.Until.UTC().Truncate(time.Second)})
	}
	text, _ := json.Marshal(all) // of such a type it always succeeds
	return string(text), gone, room < len(resting)
}

func (b *Controller) writeReleased(ctx context.Context, data string) error {
	configMaps := b.cluster.Client.CoreV1().ConfigMaps(b.options.Namespace)
	released := v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: releasedName, Annotations: map[string]string{inventory.AnnotationFormat: strconv.Itoa(releasedFormat)}},
		Data:       map[string]string{releasedKey: data},
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": released.Annotations}, "data": released.Data})
	if err != nil {
		return err
	}
	_, err = configMaps.Patch(ctx, releasedName, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = configMaps.Create(ctx, &released, metav1.CreateOptions{})
	}
	return err
}
