package provider

import (
	"context"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/lb"
)

// How often is looked whether the API server's store has gone back in time.
const (
	restoreEvery = 5 * time.Second
	restoreRetry = 500 * time.Millisecond // while the API server does not answer, as it does not during a restore
)

// watchForRestore ends this process when resource versions go back, which they do
// only when etcd is restored from a backup. A watch then goes on from a version that
// is yet to come, and says nothing for hours (kubernetes/kubernetes#107457), so all
// that this process knows of Services, Nodes and VIPs may never have been. What of it
// the next process cannot know any more is saved first.
func (b *balancer) watchForRestore(ctx context.Context) {
	newest := ""
	for pause := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		version, err := b.currentVersion(ctx)
		switch {
		case err != nil:
			pause = restoreRetry
			continue
		case newest != "" && newer(newest, version):
			b.log.Error("the API server's store was restored from a backup; starting anew", "version", version, "before", newest)
			if err := b.save(ctx); err != nil {
				b.log.Error("cannot save what is known of VIPs that the backup does not have", "err", err)
			}
			b.cloud.options.Restart()
			return
		}
		newest, pause = version, restoreEvery
	}
}

// currentVersion returns the resource version of the store; it never goes back.
func (b *balancer) currentVersion(ctx context.Context) (string, error) {
	list, err := b.client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: claimSelector, Limit: 1})
	if err != nil {
		return "", err
	}
	return list.ResourceVersion, nil
}

// save takes, for Services that the backup has, the VIPs that it does not know yet,
// and has the VIPs rest of Services that it does not have: machines may announce
// them still.
func (b *balancer) save(ctx context.Context) error {
	objects, err := b.client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: claimSelector})
	if err != nil {
		return err
	}
	there := map[netip.Addr]bool{}
	for i := range objects.Items {
		if a, err := netip.ParseAddr(objects.Items[i].Name); err == nil {
			there[a] = true
		}
	}
	services, err := b.loadBalancers(ctx)
	if err != nil {
		return err
	}
	uids := map[lb.ServiceKey]types.UID{}
	for i := range services {
		uids[keyOf(&services[i])] = services[i].UID
	}
	for _, c := range b.lost(there) {
		if err := b.saveClaim(ctx, c, uids); err != nil {
			return err
		}
	}
	data, _ := b.releasedData()
	return b.writeReleased(ctx, data)
}

// lost returns the claims that have no object, and forgets that they ever had one.
func (b *balancer) lost(there map[netip.Addr]bool) (all []lb.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.ledger.Claims() {
		if !there[c.Addr] && !b.foreign[c.Addr] {
			delete(b.claims, c.Addr)
			all = append(all, c)
		}
	}
	b.released = true
	return all
}

func (b *balancer) saveClaim(ctx context.Context, c lb.Claim, uids map[lb.ServiceKey]types.UID) error {
	for _, h := range c.Holders {
		if uid, lives := uids[h.Service]; lives {
			if _, err := b.take(ctx, c.Addr, c.Pool, h.Service, uid); err != nil {
				return err
			}
			continue
		}
		b.freed(c.Addr, h.Service)
	}
	return nil
}
