package link

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/agent/latest"
)

// ownerWish is a VIP on a link whose claim is to say that this machine answers for it, or says so no
// more.
type ownerWish struct {
	vip     netip.Addr
	answers bool
}

// ownerWishes are sorted by link and address. What another machine answers for is that one's to say; what
// nobody answers for since it has no endpoint is this one's to take back, if it said so.
func ownerWishes(node string, reached []Reached, said func(vip netip.Addr) string) (all []ownerWish) {
	for _, r := range reached {
		for _, o := range r.step.Owners {
			_, answers := slices.BinarySearchFunc(r.claims, o.VIP, netip.Addr.Compare)
			over := o.Reason.LacksEndpoints() || o.Reason == lb.NoLocalEndpoint
			if says := said(o.VIP) == node; answers && !says || over && says {
				all = append(all, ownerWish{o.VIP, answers})
			}
		}
	}
	return all
}

// Owners writes the owners of VIPs on links, the machines that answer, into their claims, for people to read: nothing goes by it. It
// writes in a goroutine of its own: while the API server is away nothing else waits for it.
type Owners struct {
	log    *slog.Logger
	client kubernetes.Interface
	self   string // the Node
	want   latest.Value[[]ownerWish]
	clock  func() time.Time

	written map[ownerWish]time.Time // until the watch shows it, it is not to be written again
	failure string
}

// NewOwners returns the writer of owners for a Node.
func NewOwners(log *slog.Logger, client kubernetes.Interface, self string) *Owners {
	return &Owners{log: log, client: client, self: self, want: latest.New[[]ownerWish](), clock: time.Now, written: map[ownerWish]time.Time{}}
}

// Report hands over how the links do, and what claims say by now. It never waits.
func (w *Owners) Report(reached []Reached, said func(vip netip.Addr) string) {
	w.want.Put(ownerWishes(w.self, reached, said))
}

// ownerRetry is how long after a failure it is tried again: nothing but what people see depends on it.
const ownerRetry = 10 * time.Second

// ownerTimeout is how long a write may take, and the watch until it shows it.
const ownerTimeout = 10 * time.Second

// Run writes the latest desired owners until ctx ends.
func (w *Owners) Run(ctx context.Context) {
	if len(validation.IsValidLabelValue(w.self)) > 0 {
		w.log.Warn("cannot label claims of VIPs that this machine answers for: the Node's name is too long for a label", "node", w.self)
		return
	}
	var all []ownerWish
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case all = <-w.want:
		case <-again:
		}
		again = nil
		if !w.write(ctx, all) {
			again = time.After(ownerRetry)
		}
	}
}

// write writes into each claim what it does not say, and reports whether that worked.
func (w *Owners) write(ctx context.Context, all []ownerWish) bool {
	now := w.clock()
	for wish, at := range w.written {
		if now.Sub(at) >= ownerTimeout {
			delete(w.written, wish)
		}
	}
	for _, wish := range all {
		if _, just := w.written[wish]; just {
			continue
		}
		if err := w.patch(ctx, wish); err != nil {
			if ctx.Err() == nil {
				w.failure = tellNew(w.log, "cannot write who answers for a VIP", w.failure, err)
			}
			return false
		}
		delete(w.written, ownerWish{wish.vip, !wish.answers})
		w.written[wish] = now
	}
	w.failure = ""
	return true
}

// patch takes the label off only while it says that this machine answers: another one may have taken the VIP
// meanwhile.
func (w *Owners) patch(ctx context.Context, wish ownerWish) error {
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	kind, content := types.MergePatchType, any(map[string]any{"metadata": map[string]any{"labels": map[string]string{lb.OwnerLabel: w.self}}})
	if !wish.answers {
		path := "/metadata/labels/" + strings.ReplaceAll(lb.OwnerLabel, "/", "~1") // RFC 6901 section 3
		kind, content = types.JSONPatchType, []map[string]string{{"op": "test", "path": path, "value": w.self}, {"op": "remove", "path": path}}
	}
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	_, err = w.client.NetworkingV1().IPAddresses().Patch(ctx, wish.vip.String(), kind, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || !wish.answers && apierrors.IsInvalid(err) {
		return nil // it was released, or says another one by now
	}
	return err
}
