package source

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory"
)

// StatusName is the ConfigMap that says whether what people wrote is in force.
const StatusName = "plinth-inventory-status"

// Keys of the status that are the keeper's.
const (
	KeyReady      = "ready"      // "true": what stands in the sources is in force
	KeyGeneration = "generation" // in force; "0": none
	KeyProblems   = "problems"   // of what stands in the sources, one a line; warnings too
)

// Keys of the status that are the controller's: what has no counterpart, a name a line.
const (
	KeyNodesWithoutMachine = "nodesWithoutMachine"
	KeyMachinesWithoutNode = "machinesWithoutNode"
)

// Reasons of Events on the ConfigMaps of an inventory.
const (
	ReasonTakenUp = "InventoryTakenUp"
	ReasonRefused = "InventoryRefused"
	ReasonWarning = "InventoryWarning"

	ReasonNotStored   = "InventoryNotStored"
	ReasonNewerFormat = "InventoryNewerFormat"
)

// How much of the problems is told: an Event holds 1 KiB, and a status should
// fit a screen or two.
const (
	eventBytes  = 1000
	statusLines = 200
	statusBytes = 64 << 10
)

// verdict is what became of an edit.
type verdict struct {
	edit     Edit
	problems inventory.Problems
	changed  bool // it is a new generation
}

func (v verdict) refused() bool { return v.problems.Err() != nil }

// status is what was last told.
type status struct {
	data    map[string]string
	refused bool
}

// tell says what became of an edit: in the log, the metrics, Events on the
// ConfigMaps, and the status. An edit that changed nothing is not worth an Event.
func (k *Keeper) tell(ctx context.Context, v verdict) error {
	k.Metrics.tell(v)
	errs, warnings := v.problems.Errors(), v.problems.Warnings()
	if v.refused() {
		what := "the inventory was refused; what is in force stays"
		if k.have.inventory == nil {
			what = "no inventory is in force yet: waiting for one without errors"
		}
		k.Log.Error(what, "generation", k.have.generation,
			"errors", len(errs), "first", errs[0].String())
	}
	carriers := v.edit.Carriers
	if !v.refused() && !k.status.refused {
		carriers = slices.DeleteFunc(slices.Clone(carriers), func(c Carrier) bool {
			return slices.EqualFunc(v.edit.in(c), k.last.edit.in(c), sameDocument)
		})
	}
	for _, carrier := range k.references(carriers) {
		switch {
		case v.refused():
			k.Recorder.Event(&carrier, v1.EventTypeWarning, ReasonRefused, about(carrier, errs))
		case v.changed || k.status.refused:
			k.Recorder.Event(&carrier, v1.EventTypeNormal, ReasonTakenUp, fmt.Sprintf("generation %d is in force", k.have.generation))
		}
		if len(warnings) > 0 && v.changed {
			k.Recorder.Event(&carrier, v1.EventTypeWarning, ReasonWarning, about(carrier, warnings))
		}
	}
	k.status.refused = v.refused()
	k.last, k.failed = v, false
	return k.publish(ctx, k.told(v))
}

// tellNotStored says that what is to be in force could not be stored, once however often it
// is tried again for the same reason.
func (k *Keeper) tellNotStored(ctx context.Context, why error) error {
	if ctx.Err() != nil {
		return nil
	}
	k.Metrics.ready.Set(0)
	data := map[string]string{
		KeyReady:      "false",
		KeyGeneration: strconv.FormatInt(k.have.generation, 10),
		KeyProblems:   shorten(why.Error()),
	}
	k.failed = true
	if maps.Equal(data, k.status.data) {
		return nil
	}
	var carriers []Carrier
	if k.edit != nil {
		carriers = k.edit.Carriers
	}
	for _, carrier := range k.references(carriers) {
		k.Recorder.Event(&carrier, v1.EventTypeWarning, ReasonNotStored, cut(why.Error(), eventBytes))
	}
	return k.publish(ctx, data)
}

// tellNewer says, once for each reason, that a newer version has stored what this one does
// not read. Until that changes no edit is taken up and nothing is stored: this version
// cannot tell what it would take away.
func (k *Keeper) tellNewer(ctx context.Context, why *inventory.NewerFormatError) error {
	k.Metrics.newer.Set(1)
	k.Metrics.ready.Set(0)
	if k.newer != why.Error() {
		k.newer = why.Error()
		k.Log.Error("a newer version stored the inventory; what is in force here stays, and no edit is taken up", "generation", k.have.generation, "err", why)
		for _, carrier := range k.references(nil) {
			k.Recorder.Event(&carrier, v1.EventTypeWarning, ReasonNewerFormat, cut(why.Error(), eventBytes))
		}
	}
	k.failed = true
	return k.publish(ctx, map[string]string{
		KeyReady:      "false",
		KeyGeneration: strconv.FormatInt(k.have.generation, 10),
		KeyProblems:   shorten(why.Error()),
	})
}

// readable notes that what is stored can be read.
func (k *Keeper) readable() {
	k.Metrics.newer.Set(0)
	if k.newer != "" {
		k.Log.Info("the stored inventory can be read again")
	}
	k.newer = ""
}

// tellStored says what was said before a write failed that has succeeded since.
func (k *Keeper) tellStored(ctx context.Context) error {
	if !k.failed {
		return nil
	}
	k.Metrics.ready.Set(0)
	if !k.last.refused() {
		k.Metrics.ready.Set(1)
	}
	err := k.publish(ctx, k.told(k.last))
	k.failed = err != nil
	return err
}

// references returns what Events on ConfigMaps stand on; the status where there are none, as
// with an edit that came from files, or that only took one away.
func (k *Keeper) references(carriers []Carrier) (out []v1.ObjectReference) {
	for _, c := range carriers {
		out = append(out, c.ObjectReference)
	}
	if len(out) == 0 {
		out = []v1.ObjectReference{{APIVersion: "v1", Kind: "ConfigMap", Namespace: k.Namespace, Name: StatusName}}
	}
	return out
}

// tellUnreadable says that nothing is in force because what was accepted cannot
// be read.
func (k *Keeper) tellUnreadable(ctx context.Context, why error) error {
	k.Metrics.ready.Set(0)
	return k.publish(ctx, map[string]string{
		KeyReady:      "false",
		KeyGeneration: "0",
		KeyProblems:   shorten(why.Error()),
	})
}

// told is what the status says of an edit.
func (k *Keeper) told(v verdict) map[string]string {
	return map[string]string{
		KeyReady:      strconv.FormatBool(!v.refused()),
		KeyGeneration: strconv.FormatInt(k.have.generation, 10),
		KeyProblems:   shorten(v.problems.String()),
	}
}

// publish writes the status where it differs from what was last written.
func (k *Keeper) publish(ctx context.Context, data map[string]string) error {
	if maps.Equal(data, k.status.data) {
		return nil
	}
	if err := WriteStatus(ctx, k.Client, k.Namespace, data); err != nil {
		return err
	}
	k.status.data = data
	return nil
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

// about says the problems that a ConfigMap has, or all where it has none of its
// own, in as much text as an Event holds.
func about(r v1.ObjectReference, problems inventory.Problems) string {
	prefix := carrierSource(r)
	var own inventory.Problems
	for _, p := range problems {
		if p.Source == prefix || strings.HasPrefix(p.Source, prefix+"/") {
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		own = problems
	}
	text := own.String()
	if len(text) <= eventBytes {
		return text
	}
	return fmt.Sprintf("%d problems; see configmap %s. The first: %s", len(own), StatusName, cut(own[0].String(), eventBytes-100))
}

// shorten cuts a text to the lines that a status has room for, and says how many are left out.
func shorten(text string) string {
	lines := strings.Split(text, "\n")
	n, size := 0, 0
	for n < min(len(lines), statusLines) && (n == 0 || size+len(lines[n]) < statusBytes) {
		size += len(lines[n]) + 1
		n++
	}
	out := cut(strings.Join(lines[:n], "\n"), statusBytes)
	if n < len(lines) {
		out += fmt.Sprintf("\n… and %d more", len(lines)-n)
	}
	return out
}

// cut shortens a text to so many bytes, at the end of a character.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}
