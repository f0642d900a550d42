package vip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/endpoints"
)

const (
	loadRetry  = time.Second
	auditEvery = 5 * time.Minute
)

var errListLate = errors.New("claims have changed since they were listed")

// Remember has this process remember who holds which VIP until ctx ends, whether it leads or
// not: should it lead after etcd was restored from a backup, it knows what the backup does
// not. It is to be called once at most, before the process can lead: where the disk hangs that
// the file is on, another one leads.
func (b *Controller) Remember(ctx context.Context, client kubernetes.Interface) {
	c := claim.Client{Kube: client, Namespace: b.options.Namespace}
	b.mirror = claim.NewMirror(b.log, c)
	b.journal = claim.NewJournal(b.log, c, b.mirror, b.options.journalFile())
	b.journal.Load()
	go b.mirror.Run(ctx, b.journal.Check)
	go b.journal.Run(ctx)
}

// beginReleasing loads the VIPs that are held from the IPAddress objects, which is enough to release.
// It reads live, since a cache may be older than what this process's predecessor gave.
func (b *Controller) beginReleasing(ctx context.Context) bool {
	if b.journal == nil {
		b.Remember(ctx, b.cluster.Client)
	}
	if !b.retryUntilDone(ctx, b.load) {
		return false
	}
	close(b.loaded)
	return true
}

// beginGiving loads the other VIPs that are held from the statuses of Services, once there are pools.
// Only then is anything given, and every Service looked at.
func (b *Controller) beginGiving(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-b.options.InForce.Changes():
	}
	if !b.retryUntilDone(ctx, b.setPools) || !b.retryUntilDone(ctx, b.adopt) {
		return false
	}
	close(b.ready)
	all, _ := b.services.List(labels.Everything()) // a cache never fails
	for _, svc := range all {
		b.serviceCame(svc)
	}
	return true
}

// retryUntilDone calls f until it succeeds or ctx ends. It says once for each reason why it
// does not succeed.
func (b *Controller) retryUntilDone(ctx context.Context, f func(context.Context) error) bool {
	said := ""
	err := wait.PollUntilContextCancel(ctx, loadRetry, true, func(ctx context.Context) (bool, error) {
		err := f(ctx)
		if err != nil && err.Error() != said {
			said = err.Error()
			b.log.Error("cannot learn which VIPs are in use, trying again", "err", err)
		}
		return err == nil, nil
	})
	return err == nil
}

// loadBalancers lists the Services of that type, live, the oldest first.
func (b *environment) loadBalancers(ctx context.Context) ([]v1.Service, error) {
	list, err := b.cluster.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.type", string(v1.ServiceTypeLoadBalancer)).String(),
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(x, y v1.Service) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), keyOf(&x).Compare(keyOf(&y)))
	})
	return list.Items, nil
}

// load takes over every claim, and what was written down of released ones. From then on the
// mirror tells of each that changes, and a restore of etcd ends this process. What was
// written down is read before the claims, for its count, and after them: whoever led before
// may still write it down that a VIP was released, and then remove its claim.
func (b *Controller) load(ctx context.Context) error {
	if err := b.journal.Check(ctx); err != nil {
		return err
	}
	b.journal.OnRestore(b.endRestored)
	list, err := b.claims.List(ctx)
	if err != nil {
		return err
	}
	released, err := b.released.read(ctx) // after the list: what has no object any more was written down before
	if err != nil {
		return err
	}
	services, err := b.loadBalancers(ctx)
	if err != nil {
		return err
	}
	objects, err := objectsOf(list)
	if err != nil {
		return fmt.Errorf("no VIP is given or taken away: %w", err)
	}
	if !b.mirror.Lead(sink{b.store}, list.ResourceVersion, func() {
		b.apply(func(s *ipam.State) ipam.Effects {
			s.Quarantine(released.Quarantined, b.now())
			holders, lingering := b.holdersByEdit(services)
			return s.Load(objects, holders).And(lingering)
		})
	}) {
		return errListLate
	}
	b.log.Info("learnt which VIPs are held", "vips", len(objects))
	b.restoreFrom()
	return nil
}

// objectsOf reads a list of claims. One of a newer version is an error.
func objectsOf(list *networkingv1.IPAddressList) (all []ipam.Object, err error) {
	for i := range list.Items {
		if err := claim.CheckFormat(&list.Items[i]); err != nil {
			return nil, err
		}
		if o, ours := claim.Read(&list.Items[i]); ours {
			all = append(all, o)
		}
	}
	return all, nil
}

// addressesIn is the set of the addresses whose objects a list has.
func addressesIn(list *networkingv1.IPAddressList) map[netip.Addr]bool {
	there := make(map[netip.Addr]bool, len(list.Items))
	for i := range list.Items {
		if a, err := netip.ParseAddr(list.Items[i].Name); err == nil {
			there[a] = true
		}
	}
	return there
}

// holdersByEdit returns what those of the Services ask for that are Plinth's, or were so, are being deleted and show a VIP
// yet, by the time of their last edit, the latest at the end. The latter linger, and are to be reconciled.
func (b *environment) holdersByEdit(services []v1.Service) (all []ipam.Request, lingering ipam.Effects) {
	services = slices.Clone(services)
	slices.SortStableFunc(services, func(x, y v1.Service) int { return lastEdit(&x).Compare(lastEdit(&y)) })
	for i := range services {
		svc := &services[i]
		lingers := svc.DeletionTimestamp != nil && b.served(svc) && len(endpoints.ShownBy(svc)) > 0
		if lingers {
			lingering.Reconcile = append(lingering.Reconcile, ipam.Retry{Service: keyOf(svc)})
		}
		if lingers || b.isOurs(svc) {
			all = append(all, requestOf(svc))
		}
	}
	return all, lingering
}

// lastEdit is when somebody last changed the Service itself, not its status.
func lastEdit(svc *v1.Service) time.Time {
	last := svc.CreationTimestamp.Time
	for _, f := range svc.ManagedFields {
		if f.Subresource == "" && f.Time != nil && f.Time.After(last) {
			last = f.Time.Time
		}
	}
	return last
}

// adopt takes over the addresses in the statuses of Services that nobody holds yet, and keeps
// from others what statuses show of Services that are not Plinth's to serve.
func (b *Controller) adopt(ctx context.Context) error {
	services, err := b.loadBalancers(ctx)
	if err != nil {
		return err
	}
	b.apply(func(state *ipam.State) (effects ipam.Effects) {
		for i := range services {
			if svc := &services[i]; b.isOurs(svc) {
				effects = effects.And(b.adoptFrom(state, svc))
			}
		}
		for i := range services {
			effects = effects.And(b.observeShown(state, &services[i]))
		}
		return effects.And(b.observeAllShown(state)) // of those too that are no load balancers any more
	})
	return nil
}

// adoptFrom adopts the VIPs in the status of a Service.
func (b *Controller) adoptFrom(s *ipam.State, svc *v1.Service) ipam.Effects {
	adopted, denied, effects := s.Adopt(requestOf(svc), b.now())
	for _, a := range adopted {
		b.log.Info("took over a VIP from a status", "service", keyOf(svc), "vip", a)
	}
	for _, d := range denied {
		b.log.Info("did not take over a VIP from a status", "service", keyOf(svc), "vip", d.Address, "reason", d.Reason)
	}
	return effects
}

// setPools sets the pools in force in the state, without the addresses that the cluster uses, and serves the Services that are pending. Of
// these another balancer may have served some that no pool admitted before: the VIPs that it gave them are adopted before any is offered.
func (b *Controller) setPools(context.Context) error {
	switch inv := b.options.InForce.Get(); {
	case inv == nil:
		return errNotReady
	case inv.SelectsNamespaces() && b.namespacesKnown != nil && !b.namespacesKnown():
		return errNamespaces
	}
	takers := b.takers()
	b.apply(func(state *ipam.State) (effects ipam.Effects) { // reads both here, or who read earlier could come later
		inv := b.options.InForce.Get()
		state.SetPools(inv, takers.taken(inv)...)
		b.retained.report(state, inv)
		for _, k := range state.Pending() {
			if svc := b.service(k); svc != nil && b.isOurs(svc) && len(state.Holds(k)) == 0 {
				effects = effects.And(b.adoptFrom(state, svc))
			}
		}
		if closed(b.ready) { // before, adopt does: whose status it is to stay in comes first
			effects = effects.And(b.observeAllShown(state))
		}
		return effects.And(state.OfferAll(b.now()))
	})
	b.tellAllTaken()
	return nil
}

// audit compares the state with a live list from time to time: a watch can miss
// deletions of objects that a restored etcd never had.
func (b *Controller) audit(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := b.compare(ctx); err != nil {
			b.log.Error("cannot compare the VIPs that are held with the API server's", "err", err)
		}
	}, auditEvery)
}

// compare believes nothing of its list that is older than what is known, and reads live what may be gone by
// now, and what the list does not have: what a restored etcd does not have was never deleted.
func (b *Controller) compare(ctx context.Context) error {
	asked := b.deletionsTold()
	list, err := b.claims.List(ctx)
	if err != nil {
		return err
	}
	unsure := ask(b.store, func(s *ipam.State) []netip.Addr { return s.Unlisted(addressesIn(list)) })
	for i := range list.Items {
		if a, err := netip.ParseAddr(list.Items[i].Name); !b.observe(&list.Items[i], asked, false) && err == nil {
			unsure = append(unsure, a)
		}
	}
	b.apply(b.reconcileGone, b.observeAllShown, (*ipam.State).ReconcileShown)
	var failed []error
	for _, a := range unsure {
		if failed = append(failed, b.refresh(ctx, a)); ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// reconcileGone queues the Services that hold something and are not in the cache.
func (b *Controller) reconcileGone(s *ipam.State) (effects ipam.Effects) {
	for _, c := range s.Holdings() {
		for _, h := range c.Holders {
			if b.service(h.Service) == nil {
				effects.Reconcile = append(effects.Reconcile, ipam.Retry{Service: h.Service})
			}
		}
	}
	return effects
}
