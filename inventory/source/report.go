package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
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

// reporter reports the outcome of edits: in the log, the metrics, Events on the ConfigMaps, and the status.
type reporter struct {
	config    *Config
	published map[string]string // the status as it was last written
	refused   bool              // the last edit was refused, as Events say
	refusal   *edit.Refusal     // what KeyRefused of the status says; nil: not read yet
	last      result            // that was reported
	failed    bool              // to read or write what is stored, which was reported since
	newer     bool              // what is stored is not read: a newer version wrote it
	torn      bool              // what is stored cannot be read, when it was last looked at
	logged    string            // the last error that was logged, and is not over
}

// snapshot is the subject of a report: an edit, its progress, and the inventory in force meanwhile.
type snapshot struct {
	edit       *Edit // the last one; nil: none yet
	life       edit.Life
	inForce    bool  // an inventory is in force
	generation int64 // that is stored, as far as is known
	trouble    string
}

// result is the outcome of an edit.
type result struct {
	edit    Edit
	life    edit.Life
	changed bool // it is a new generation
}

func (res result) refused() bool { return res.life.Phase == edit.Refused }

func (res result) problems() inventory.Problems { return res.life.Verdict.Problems }

// decided reports the outcome of an edit. An edit that changed nothing is not worth an Event.
func (r *reporter) decided(ctx context.Context, of snapshot, res result) error {
	r.config.Metrics.report(res.refused(), res.problems())
	errs := res.problems().Errors()
	if res.refused() {
		what := "refused the inventory; what is in force stays"
		if !of.inForce {
			what = "waits for an inventory without errors; no inventory is in force yet"
		}
		r.config.Log.Error(what, "generation", of.generation, "errors", len(errs), "first", errs[0].String())
	}
	r.recordDecided(of.generation, res)
	r.refused, r.last, r.failed = res.refused(), res, false
	switch {
	case res.life.Verdict.Digest != "":
		r.refusal = &edit.Refusal{Content: res.edit.content(), Digest: res.life.Verdict.Digest}
	case !res.refused(): // an edit that is refused for anything else leaves that one as it is
		r.refusal = &edit.Refusal{}
	}
	return r.publish(ctx, r.status(of, !res.refused(), res.problems().String()))
}

// recordDecided records Events of an edit's outcome.
func (r *reporter) recordDecided(generation int64, res result) {
	carriers := res.edit.Carriers
	if !res.refused() && !r.refused {
		carriers = slices.DeleteFunc(slices.Clone(carriers), func(c Carrier) bool {
			return slices.EqualFunc(res.edit.in(c), r.last.edit.in(c), sameDocument)
		})
	}
	warnings := res.problems().Warnings()
	for _, carrier := range r.references(carriers) {
		switch {
		case res.refused():
			r.config.Recorder.Event(&carrier, v1.EventTypeWarning, ReasonRefused, about(carrier, res.problems().Errors()))
		case res.changed || r.refused:
			r.config.Recorder.Event(&carrier, v1.EventTypeNormal, ReasonTakenUp, fmt.Sprintf("generation %d is in force", generation))
		}
		if len(warnings) > 0 && res.changed {
			r.config.Recorder.Event(&carrier, v1.EventTypeWarning, ReasonWarning, about(carrier, warnings))
		}
	}
}

// trialBegun reports that an edit is tried.
func (r *reporter) trialBegun(carriers []Carrier, t edit.Trial) {
	r.config.Log.Info("began a trial of new terms of sessions", "nodes", t.Nodes(), "until", t.Until)
	text := inventory.ShortenText("new terms of sessions are tried first: "+strings.Join(t.Lines(), ", "), eventBytes)
	for _, carrier := range r.references(carriers) {
		r.config.Recorder.Event(&carrier, v1.EventTypeNormal, ReasonOnTrial, text)
	}
}

// notStored reports that the inventory that is to be in force could not be stored, once however often it
// is tried again for the same reason.
func (r *reporter) notStored(ctx context.Context, of snapshot, why error) error {
	r.config.Metrics.notStored.Set(1)
	var carriers []Carrier
	if of.edit != nil {
		carriers = of.edit.Carriers
	}
	return r.notReady(ctx, of, why, ReasonNotStored, carriers)
}

// newerFormat reports, once for each reason, that a newer version has stored an inventory that this one does
// not read. Until that changes no edit is accepted and nothing is stored: this version
// does not know the losses.
func (r *reporter) newerFormat(ctx context.Context, of snapshot, why *inventory.NewerFormatError) error {
	r.config.Metrics.newer.Set(1)
	if !r.newer {
		r.config.Log.Error("cannot read the inventory, which a newer version stored; what is in force here stays, and no edit is taken up", "generation", of.generation, "err", why)
	}
	r.newer = true
	return r.notReady(ctx, of, why, ReasonNewerFormat, nil)
}

// waiting reports that an edit is not decided on yet.
func (r *reporter) waiting(ctx context.Context, of snapshot, why error) error {
	return r.notReady(ctx, of, why, "", nil)
}

// notReady reports the reason why an edit is not in force though it was not refused: on the
// status, and where that is new with an Event, if there is a reason for one.
func (r *reporter) notReady(ctx context.Context, of snapshot, why error, reason string, carriers []Carrier) error {
	r.config.Metrics.setReady(false)
	r.failed = true
	data := r.status(of, false, why.Error())
	if reason != "" && !maps.Equal(data, r.published) {
		for _, carrier := range r.references(carriers) {
			r.config.Recorder.Event(&carrier, v1.EventTypeWarning, reason, inventory.ShortenText(why.Error(), eventBytes))
		}
	}
	return r.publish(ctx, data)
}

// readable reports that no newer version stored the inventory, and whether it can be read, which is logged where that
// changes. The inventory in force here, if that was accepted, is then stored again.
func (r *reporter) readable(generation int64, err error) {
	r.config.Metrics.newer.Set(0)
	r.config.Metrics.unreadable.Set(oneIf(err != nil))
	switch {
	case err != nil && !r.torn:
		r.config.Log.Error("cannot read the stored inventory", "generation", generation, "err", err)
	case err == nil && (r.newer || r.torn):
		r.config.Log.Info("can read the stored inventory again")
	}
	r.newer, r.torn = false, err != nil
}

// stored reports the last result again, once a write has succeeded that had failed, or the inventory in force was
// stored again, as another generation.
func (r *reporter) stored(ctx context.Context, of snapshot) error {
	if said := r.published[KeyGeneration]; !r.failed && (said == "" || said == strconv.FormatInt(of.generation, 10)) {
		return nil
	}
	r.config.Metrics.setReady(!r.last.refused())
	err := r.publish(ctx, r.status(of, !r.last.refused(), r.last.problems().String()))
	r.failed = err != nil
	return err
}

// references returns the objects of Events on an edit: its ConfigMaps; the status where there are none, as
// with an edit that came from files, or that only took one away.
func (r *reporter) references(carriers []Carrier) (out []v1.ObjectReference) {
	for _, c := range carriers {
		out = append(out, c.ObjectReference)
	}
	if len(out) == 0 {
		out = []v1.ObjectReference{{APIVersion: "v1", Kind: "ConfigMap", Namespace: r.config.Namespace, Name: StatusName}}
	}
	return out
}

// status returns the content of the status.
func (r *reporter) status(of snapshot, ready bool, problems string) map[string]string {
	generation := of.generation
	if !of.inForce {
		generation = 0
	}
	data := map[string]string{
		KeyReady:      strconv.FormatBool(ready),
		KeyGeneration: strconv.FormatInt(generation, 10),
		KeyProblems:   shorten(problems),
		KeyStore:      shorten(of.trouble),
		KeyTrial:      "",
	}
	if of.edit != nil {
		data[KeyRead] = of.edit.Written()
	}
	if of.life.Phase == edit.OnTrial {
		data[KeyTrial] = strings.Join(of.life.Verdict.Trial.Lines(), "\n")
	}
	if r.refusal != nil { // else it stands there as the leader before wrote it
		data[KeyRefused] = r.refusal.String()
	}
	return data
}

// publish writes the status where it differs from the last one that was written.
func (r *reporter) publish(ctx context.Context, data map[string]string) error {
	if maps.Equal(data, r.published) {
		return nil
	}
	if err := WriteStatus(ctx, r.config.Client, r.config.Namespace, data); err != nil {
		return err
	}
	r.published = data
	return nil
}

// lastRefusal returns the last edit that was refused for its losses,
// by the status; none: the last one was not. It is read once: a leader that has just begun
// does not know the refusals of the one before.
func (r *reporter) lastRefusal(ctx context.Context) (edit.Refusal, error) {
	if r.refusal == nil {
		status, err := r.config.Client.CoreV1().ConfigMaps(r.config.Namespace).Get(ctx, StatusName, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return edit.Refusal{}, fmt.Errorf("reading configmap %s: %w", StatusName, err)
		}
		r.refusal = new(edit.Refusal)
		if err == nil {
			*r.refusal = edit.ParseRefusal(status.Data[KeyRefused])
		}
	}
	return *r.refusal, nil
}

// failing counts that the cluster could not be read or written, and logs it once however often it is tried
// again.
func (r *reporter) failing(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return
	}
	if !errors.As(err, new(*heldError)) {
		r.config.Metrics.failed.Inc()
	}
	if r.logged == err.Error() {
		return
	}
	r.logged = err.Error()
	r.config.Log.Error("cannot keep the inventory; will try again, after pauses of up to a minute", "err", err)
}

// recovered logs that an error is over.
func (r *reporter) recovered(generation int64) {
	if r.logged != "" {
		r.config.Log.Info("can keep the inventory again", "generation", generation)
	}
	r.logged = ""
}
