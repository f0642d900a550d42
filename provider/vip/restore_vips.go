package vip

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// How long what is known may differ from what the API server says before it is sure
// that no watch will bring the two together, and how often is looked meanwhile. A
// reflector waits up to 30 s until it watches again.
const (
	differsFor   = 90 * time.Second
	differsEvery = 5 * time.Second
)

// watchForRestore ends this process when etcd was restored from a backup. A watch then
// goes on from a version that is yet to come, and says nothing for hours
// (kubernetes/kubernetes#107457), so all that this process knows of Services, Nodes and
// VIPs may never have been. What of it the next process cannot know is saved first.
// It looks whenever a watch had to begin anew, as all do when an API server starts. Where
// that watch had to list first, as after a refusal by a server that has not read its roles
// yet, what is known is what there is, and the list alone shows that it went back.
func (b *Controller) watchForRestore(ctx context.Context) {
	select {
	case <-b.rewatched: // for the first time
	default:
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wentBack:
		case <-b.rewatched:
			if !b.wasRestored(ctx) {
				continue
			}
		}
		b.restored(ctx)
		return
	}
}

// restored ends this process, after it has saved what it alone knows of VIPs.
func (b *Controller) restored(ctx context.Context) {
	b.ending.Do(func() {
		b.log.Error("the API server's store was restored from a backup; starting anew")
		select {
		case <-b.seeded:
			if err := insistFor(ctx, b.save); err != nil {
				b.log.Error("cannot save what is known of VIPs that the backup does not have", "err", err)
			}
		default: // it knows of none
		}
		b.options.Restart()
	})
}

// wasRestored compares what is known with what the API server says until they agree, or
// until it is sure that they will not.
func (b *Controller) wasRestored(ctx context.Context) bool {
	var since time.Time
	var before map[string]string
	for ctx.Err() == nil {
		differs, proof, err := b.differences(ctx)
		switch {
		case proof:
			return true
		case err == nil && len(differs) == 0:
			return false
		case err != nil:
			before = nil // who knows what happened meanwhile
		default:
			if before = common(before, differs); len(before) == 0 {
				before, since = differs, time.Now()
			}
			if time.Since(since) > differsFor {
				return true
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(differsEvery):
		}
	}
	return false
}

// common returns what both have alike.
func common(a, b map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range a {
		if w, there := b[k]; there && v == w {
			out[k] = v
		}
	}
	return out
}

// differences is differ of what is known and what the API server has.
func (b *Controller) differences(ctx context.Context) (differs map[string]string, proof bool, err error) {
	known, err := b.knownVersions()
	if err != nil {
		return nil, false, err
	}
	live, newest, err := b.liveVersions(ctx)
	if err != nil {
		return nil, false, err
	}
	differs, proof = differ(known, live, newest)
	return differs, proof, nil
}

// differ returns the objects that are known otherwise than they are, each with both
// resource versions. There is proof of a restore when one is known that is newer than it
// is, or than the newest of all. What is known must have been known before.
func differ(known, live map[string]string, newest string) (differs map[string]string, proof bool) {
	differs = map[string]string{}
	for k, v := range known {
		if newer(v, newest) || live[k] != "" && newer(v, live[k]) {
			return nil, true
		}
		if live[k] != v {
			differs[k] = v + " " + live[k]
		}
	}
	for k, v := range live {
		if known[k] == "" {
			differs[k] = " " + v
		}
	}
	return differs, false
}

// knownVersions returns the resource versions of Services and claims as this process
// has them.
func (b *Controller) knownVersions() (map[string]string, error) {
	services, err := b.services.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]string, len(b.claims))
	for a, c := range b.claims {
		all[a.String()] = c.resourceVersion
	}
	for _, svc := range services {
		if svc.Spec.Type == v1.ServiceTypeLoadBalancer {
			all[keyOf(svc).String()] = svc.ResourceVersion
		}
	}
	return all, nil
}

// liveVersions returns the resource versions of the same as the API server has them,
// and that of all that it has.
func (b *Controller) liveVersions(ctx context.Context) (all map[string]string, newest string, err error) {
	services, err := b.loadBalancers(ctx)
	if err != nil {
		return nil, "", err
	}
	claims, err := b.listClaims(ctx)
	if err != nil {
		return nil, "", err
	}
	all = make(map[string]string, len(claims.Items))
	for i := range claims.Items {
		if _, ours := readClaim(&claims.Items[i]); ours {
			all[claims.Items[i].Name] = claims.Items[i].ResourceVersion
		}
	}
	for _, svc := range services {
		all[keyOf(&svc).String()] = svc.ResourceVersion
	}
	return all, claims.ResourceVersion, nil
}

// listWentBack notes that a list of claims was older than what was seen of them before.
func (b *Controller) listWentBack(before, now string) {
	b.log.Error("resource versions went back", "before", before, "now", now)
	select {
	case b.wentBack <- struct{}{}:
	default:
	}
}
