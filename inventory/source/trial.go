package source

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory/edit"
)

// How an edit that gives sessions other terms is tried on one machine for each router: the
// slices of its racks are stored as ever, and what would be [AcceptedName] stands in a ConfigMap
// beside it, which counts for the Nodes that it names and for one generation. It is gone before
// and after. Agents that do not know it keep what is in force.
const (
	TrialName       = "plinth-trial"
	AnnotationTrial = "plinth.dev/trial"       // its ID, by which agents speak of it
	AnnotationUntil = "plinth.dev/trial-until" // when it is over (RFC 3339)

	keyNodes = "nodes" // "<node> <router> <router> ...", a line each
)

// TrialGrace is the time after the end of a trial for which an agent goes on with its terms: by then
// the controller has taken the edit up or ended the trial, or is away.
const TrialGrace = 15 * time.Second

// trialID names the trial of what would be the ConfigMap that lists the slices.
func trialID(common *v1.ConfigMap, t edit.Trial) string {
	sum := sha256.Sum256([]byte(common.Data[keyInventory] + common.Data[keyRacks] + untilText(t)))
	return hex.EncodeToString(sum[:4])
}

// trialPart makes the ConfigMap of a trial of what would be the ConfigMap that lists the slices.
func trialPart(common *v1.ConfigMap, t edit.Trial) *v1.ConfigMap {
	cm := common.DeepCopy()
	cm.Name = TrialName
	cm.Data[keyNodes] = strings.Join(t.Lines(), "\n") + "\n"
	cm.Annotations[AnnotationTrial], cm.Annotations[AnnotationUntil] = t.ID, untilText(t)
	delete(cm.Data, keyPrevious)
	delete(cm.Annotations, edit.AnnotationAllow)
	return cm
}

func untilText(t edit.Trial) string { return t.Until.UTC().Format(time.RFC3339Nano) }

// trialIn reads a trial.
func trialIn(cm *v1.ConfigMap) edit.Trial {
	trial := edit.Trial{ID: cm.Annotations[AnnotationTrial], Routers: map[string][]string{}}
	trial.Until, _ = time.Parse(time.RFC3339Nano, cm.Annotations[AnnotationUntil]) // zero: it is over
	for line := range strings.Lines(cm.Data[keyNodes]) {
		if words := strings.Fields(line); len(words) > 1 {
			trial.Routers[words[0]] = words[1:]
		}
	}
	return trial
}
