package source

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
)

// StatusName is the ConfigMap that says whether what people wrote is in force.
const StatusName = "plinth-inventory-status"

// Keys of the status that are the reconciler's.
const (
	KeyReady      = "ready"      // "true": what stands in the sources is in force
	KeyGeneration = "generation" // in force; "0": none
	KeyProblems   = "problems"   // of what stands in the sources, one a line; warnings too
	KeyRefused    = "refused"    // "<content> <digest>" of an edit that is refused for its losses; empty: none is
	KeyStore      = "store"      // why what is in force, or is to be, is not stored; empty: it is
	KeyRead       = "read"       // the content of the ConfigMaps that all this is said of: see [Edit.Written]
	KeyTrial      = "trial"      // "<node> <router> <router> ...", a line each, that try an edit's terms of sessions; empty: none does
)

// Keys of the status that are the node controller's: what is unmatched, a name a line.
const (
	KeyNodesWithoutMachine = "nodesWithoutMachine"
	KeyMachinesWithoutNode = "machinesWithoutNode"
)

// How much of the problems is reported: an Event holds 1 KiB, and a status should
// fit a screen or two.
const (
	eventBytes  = 1000
	statusLines = 200
	statusBytes = 64 << 10
)

// keepStatus writes the status again where it is deleted, with all keys that it had: each of its
// writers writes only the keys that change.
func (c *Config) keepStatus(ctx context.Context) error {
	informer := informerOf(c.Client, c.Namespace, StatusName)
	var last atomic.Pointer[v1.ConfigMap]
	keep := func(obj any) {
		if cm, ok := obj.(*v1.ConfigMap); ok {
			last.Store(cm)
		}
	}
	// Of the informer's own handlers, since what follows it sees but the end of a burst.
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: keep, UpdateFunc: func(_, obj any) { keep(obj) }, DeleteFunc: keep})
	if err != nil {
		return err
	}
	return follow(ctx, func() error {
		was := last.Load()
		if was == nil || inStore(informer, c.Namespace, StatusName) != nil {
			return nil
		}
		cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: StatusName}, Data: was.Data}
		_, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Create(ctx, cm, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			c.Log.Error("cannot write the deleted status again; will try again", "configmap", StatusName, "err", err)
		}
		return err
	}, informer)
}

// WriteStatus sets keys of the status ConfigMap and leaves the others alone.
func WriteStatus(ctx context.Context, client kubernetes.Interface, namespace string, data map[string]string) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return err
	}
	_, err = maps.Patch(ctx, StatusName, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		cm := &v1.ConfigMap{Data: data}
		cm.Name = StatusName
		_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing configmap %s: %w", StatusName, err)
	}
	return nil
}

// about returns the problems of a ConfigMap, or all where it has none of its
// own, in as much text as an Event holds.
func about(r v1.ObjectReference, problems inventory.Problems) string {
	prefix := carrierSource(r)
	own := slices.DeleteFunc(slices.Clone(problems), func(p inventory.Problem) bool {
		return p.Source != prefix && !strings.HasPrefix(p.Source, prefix+"/")
	})
	if len(own) == 0 {
		own = problems
	}
	text := own.String()
	if len(text) <= eventBytes {
		return text
	}
	return fmt.Sprintf("%d problems; see configmap %s. The first: %s", len(own), StatusName, inventory.ShortenText(own[0].String(), eventBytes-100))
}

// shorten cuts a text to the lines that a status has room for, and says how many are left out.
func shorten(text string) string {
	lines := strings.Split(text, "\n")
	kept, size := 0, 0
	for kept < min(len(lines), statusLines) && (kept == 0 || size+len(lines[kept]) < statusBytes) {
		size += len(lines[kept]) + 1
		kept++
	}
	out := inventory.ShortenText(strings.Join(lines[:kept], "\n"), statusBytes)
	if kept < len(lines) {
		out += fmt.Sprintf("\n… and %d more", len(lines)-kept)
	}
	return out
}
