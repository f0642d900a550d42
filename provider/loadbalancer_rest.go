package provider

import (
	"context"
	"encoding/json"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"plinth.dev/plinth/lb"
)

// The ConfigMap that keeps what rests over a restart.
const (
	releasedName  = "plinth-released"
	releasedKey   = "released.json"
	releasedEvery = 2 * time.Second // a write at most, however many are released
	releasedMost  = 5000            // the newest, which is about 500 kB
)

// rested is how a released address is written down.
type rested struct {
	Address netip.Addr `json:"address"`
	Owner   string     `json:"owner"`
	Until   time.Time  `json:"until"`
}

// readReleased has the ledger know what rested when this process's predecessor ended.
func (b *balancer) readReleased(ctx context.Context) error {
	m, err := b.client.CoreV1().ConfigMaps(b.cloud.options.Namespace).Get(ctx, releasedName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var all []rested
	if err := json.Unmarshal([]byte(m.Data[releasedKey]), &all); err != nil {
		b.log.Error("what was released before is unreadable, and so is forgotten", "configmap", releasedName, "err", err)
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range all {
		if k, ok := parseKey(r.Owner); ok && r.Until.After(b.now()) && !r.Until.After(b.now().Add(lb.Quarantine)) {
			b.ledger.Rest(lb.Rested{Addr: r.Address, Owner: k, Until: r.Until})
		}
	}
	return nil
}

// keepReleased writes down what rests, when it changed, until ctx ends.
func (b *balancer) keepReleased(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		data, changed := b.releasedData()
		if !changed {
			return
		}
		if err := b.writeReleased(ctx, data); err != nil {
			b.log.Error("cannot write down which VIPs were released", "err", err)
			b.mu.Lock()
			b.released = true
			b.mu.Unlock()
		}
	}, releasedEvery)
}

func (b *balancer) releasedData() (data string, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.released {
		return "", false
	}
	b.released = false
	resting := b.ledger.Resting()
	resting = resting[max(0, len(resting)-releasedMost):]
	all := make([]rested, 0, len(resting))
	for _, r := range resting {
		all = append(all, rested{Address: r.Addr, Owner: r.Owner.String(), Until: r.Until.UTC().Truncate(time.Second)})
	}
	text, err := json.Marshal(all)
	return string(text), err == nil
}

func (b *balancer) writeReleased(ctx context.Context, data string) error {
	maps := b.client.CoreV1().ConfigMaps(b.cloud.options.Namespace)
	patch, err := json.Marshal(map[string]any{"data": map[string]string{releasedKey: data}})
	if err != nil {
		return err
	}
	_, err = maps.Patch(ctx, releasedName, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: releasedName}, Data: map[string]string{releasedKey: data}}, metav1.CreateOptions{})
	}
	return err
}
