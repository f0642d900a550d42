package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
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

// Reasons of Events on the ConfigMaps of an inventory.
const (
	ReasonTakenUp = "InventoryTakenUp"
	ReasonRefused = "InventoryRefused"
	ReasonWarning = "InventoryWarning"
	ReasonOnTrial = "InventoryOnTrial"

	ReasonNotStored   = "InventoryNotStored"
	ReasonNewerFormat = "InventoryNewerFormat"
)

// How much of the problems is reported: an Event holds 1 KiB, and a status should
// fit a screen or two.
const (
	eventBytes  = 1000
	statusLines = 200
	statusBytes = 64 << 10
)

// result is what became of an edit.
type result struct {
	edit    Edit
	life    edit.Life
	changed bool // it is a new generation
}

func (res result) refused() bool { return res.life.Phase == edit.Refused }

func (res result) problems() inventory.Problems { return res.life.Verdict.Problems }

// status is what was last reported.
type status struct {
	data    map[string]string
	refused bool
}

// reportDecided reports what became of an edit, which is decided on again where that cannot be written.
func (r *Reconciler) reportDecided(ctx context.Context, res result) error {
	err := r.report(ctx, res)
	if err != nil {
		err = errors.Join(err, r.life.Reconsider())
	}
	return err
}

// report says what became of an edit: in the log, the metrics, Events on the
// ConfigMaps, and the status. An edit that changed nothing is not worth an Event.
func (r *Reconciler) report(ctx context.Context, res result) error {
	r.Metrics.report(res)
	errs, warnings := res.problems().Errors(), res.problems().Warnings()
	if res.refused() {
		what := "the inventory was refused; what is in force stays"
		if r.have.inventory == nil {
			what = "no inventory is in force yet: waiting for one without errors"
		}
		r.Log.Error(what, "generation", r.have.generation,
			"errors", len(errs), "first", errs[0].String())
	}
	carriers := res.edit.Carriers
	if !res.refused() && !r.status.refused {
		carriers = slices.DeleteFunc(slices.Clone(carriers), func(c Carrier) bool {
			return slices.EqualFunc(res.edit.in(c), r.last.edit.in(c), sameDocument)
		})
	}
	for _, carrier := range r.references(carriers) {
		switch {
		case res.refused():
			r.Recorder.Event(&carrier, v1.EventTypeWarning, ReasonRefused, about(carrier, errs))
		case res.changed || r.status.refused:
			r.Recorder.Event(&carrier, v1.EventTypeNormal, ReasonTakenUp, fmt.Sprintf("generation %d is in force", r.have.generation))
		}
		if len(warnings) > 0 && res.changed {
			r.Recorder.Event(&carrier, v1.EventTypeWarning, ReasonWarning, about(carrier, warnings))
		}
	}
	r.status.refused = res.refused()
	r.last, r.failed = res, false
	switch {
	case res.life.Verdict.Digest != "":
		r.refused = &edit.Refusal{Content: res.edit.content(), Digest: res.life.Verdict.Digest}
	case !res.refused(): // an edit that is refused for anything else says nothing of that one
		r.refused = &edit.Refusal{}
	}
	return r.publish(ctx, r.statusData(!res.refused(), res.problems().String()))
}

// reportNotStored says that what is to be in force could not be stored, once however often it
// is tried again for the same reason.
func (r *Reconciler) reportNotStored(ctx context.Context, why error) error {
	if ctx.Err() != nil {
		return nil
	}
	var carriers []Carrier
	if r.edit != nil {
		carriers = r.edit.Carriers
	}
	r.trouble = why.Error()
	r.Metrics.notStored.Set(1)
	return r.reportNotReady(ctx, why, ReasonNotStored, carriers)
}

// reportNewerFormat says, once for each reason, that a newer version has stored what this one does
// not read. Until that changes no edit is taken up and nothing is stored: this version
// does not know what it would take away.
func (r *Reconciler) reportNewerFormat(ctx context.Context, why *inventory.NewerFormatError) error {
	r.Metrics.newer.Set(1)
	if !r.newer {
		r.Log.Error("a newer version stored the inventory; what is in force here stays, and no edit is taken up", "generation", r.have.generation, "err", why)
	}
	r.newer = true
	return r.reportNotReady(ctx, why, ReasonNewerFormat, nil)
}

// reportNotReady says why what people wrote is not in force, though nobody refused it: on the
// status, and where that is new with an Event, if there is a reason for one.
func (r *Reconciler) reportNotReady(ctx context.Context, why error, reason string, carriers []Carrier) error {
	r.Metrics.ready.Set(0)
	r.failed = true
	data := r.statusData(false, why.Error())
	if reason != "" && !maps.Equal(data, r.status.data) {
		for _, carrier := range r.references(carriers) {
			r.Recorder.Event(&carrier, v1.EventTypeWarning, reason, inventory.ShortenText(why.Error(), eventBytes))
		}
	}
	return r.publish(ctx, data)
}

// readable notes that no newer version stored what is there, and whether it can be read, which is logged where that
// changes. What is in force here, if that was accepted, is then stored again.
func (r *Reconciler) readable(err error) {
	r.Metrics.newer.Set(0)
	r.Metrics.unreadable.Set(0)
	switch {
	case err != nil:
		r.Metrics.unreadable.Set(1)
		if !r.torn {
			r.Log.Error("what is stored of the inventory cannot be read", "generation", r.have.generation, "err", err)
		}
	case r.newer || r.torn:
		r.Log.Info("the stored inventory can be read again")
	}
	r.newer, r.torn = false, err != nil
}

// reportStored reports the last result again, once a write has succeeded that had failed, or what is in force was
// stored again, as another generation.
func (r *Reconciler) reportStored(ctx context.Context) error {
	if said := r.status.data[KeyGeneration]; !r.failed && (said == "" || said == strconv.FormatInt(r.have.generation, 10)) {
		return nil
	}
	r.Metrics.setReady(r.last)
	err := r.publish(ctx, r.statusData(!r.last.refused(), r.last.problems().String()))
	r.failed = err != nil
	return err
}

// references returns what Events on ConfigMaps stand on; the status where there are none, as
// with an edit that came from files, or that only took one away.
func (r *Reconciler) references(carriers []Carrier) (out []v1.ObjectReference) {
	for _, c := range carriers {
		out = append(out, c.ObjectReference)
	}
	if len(out) == 0 {
		out = []v1.ObjectReference{{APIVersion: "v1", Kind: "ConfigMap", Namespace: r.Namespace, Name: StatusName}}
	}
	return out
}

// statusData is the content of the status.
func (r *Reconciler) statusData(ready bool, problems string) map[string]string {
	generation := r.have.generation
	if r.have.inventory == nil {
		generation = 0
	}
	data := map[string]string{
		KeyReady:      strconv.FormatBool(ready),
		KeyGeneration: strconv.FormatInt(generation, 10),
		KeyProblems:   shorten(problems),
		KeyStore:      shorten(r.trouble),
		KeyTrial:      "",
	}
	if r.edit != nil {
		data[KeyRead] = r.edit.Written()
	}
	if r.life.Phase == edit.OnTrial {
		data[KeyTrial] = strings.Join(r.life.Verdict.Trial.Lines(), "\n")
	}
	if r.refused != nil { // else it stands there as the leader before wrote it
		data[KeyRefused] = r.refused.String()
	}
	return data
}

// publish writes the status where it differs from what was last written.
func (r *Reconciler) publish(ctx context.Context, data map[string]string) error {
	if maps.Equal(data, r.status.data) {
		return nil
	}
	if err := WriteStatus(ctx, r.Client, r.Namespace, data); err != nil {
		return err
	}
	r.status.data = data
	return nil
}

// keepStatus writes the status again where somebody deletes it, with all that it said: each of those
// who write it writes only what changes.
func (r *Reconciler) keepStatus(ctx context.Context) error {
	informer := informerOf(r.Client, r.Namespace, StatusName)
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
		if was == nil || inStore(informer, r.Namespace, StatusName) != nil {
			return nil
		}
		cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: StatusName}, Data: was.Data}
		_, err := r.Client.CoreV1().ConfigMaps(r.Namespace).Create(ctx, cm, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			r.Log.Error("cannot write the deleted status again; will try again", "configmap", StatusName, "err", err)
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
	return fmt.Sprintf("%d problems; see configmap %s. The first: %s", len(own), StatusName, inventory.ShortenText(own[0].String(), eventBytes-100))
}

// shorten cuts a text to the lines that a status has room for, and says how many are left out.
func shorten(text string) string {
	lines := strings.Split(text, "\n")
	n, size := 0, 0
	for n < min(len(lines), statusLines) && (n == 0 || size+len(lines[n]) < statusBytes) {
		size += len(lines[n]) + 1
		n++
	}
	out := inventory.ShortenText(strings.Join(lines[:n], "\n"), statusBytes)
	if n < len(lines) {
		out += fmt.Sprintf("\n… and %d more", len(lines)-n)
	}
	return out
}
