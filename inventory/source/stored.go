package source

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// The accepted inventory is stored in ConfigMaps: each rack in slices of its own, which are
// named by generation and never changed, and the part that all machines need in one more, which lists
// the slices that are in force. Only that one's write is the commit of a generation.
const (
	AcceptedName         = "plinth-accepted"       // the ConfigMap that lists the slices
	LabelAccepted        = "plinth.dev/accepted"   // on each of them: the inventory's name; or OfDirectory
	AnnotationGeneration = "plinth.dev/generation" // of the last change of that ConfigMap

	keyInventory = "inventory.yaml"
	keyRacks     = "racks"    // of the common one: "<rack> <generation of its slice>", a line each
	keyPrevious  = "previous" // of the common one: what racks was in the generation before
)

// OfDirectory is what [LabelAccepted] says on ConfigMaps of package directory, which are no part of the accepted inventory. They bear it so that a
// leader of a version without that package deletes them, for it would let them grow old. No inventory can be called so.
const OfDirectory = "plinth_nodes"

// selectAccepted selects the ConfigMaps of the accepted inventory.
const selectAccepted = LabelAccepted + "," + LabelAccepted + "!=" + OfDirectory

// PreviousName is the ConfigMap that has [AcceptedName] as it was in the generation before. It is read where
// that one is gone or spoilt, and nowhere else: to programs that do not know it, it is one that is not listed.
const PreviousName = AcceptedName + ".previous"

// annotationFormatThen is on [PreviousName]: the number of the format that it was stored in. The
// annotation of the format itself is 1: older programs that list it must not take it for what is in force.
const annotationFormatThen = "plinth.dev/previous-format"

// sliceName returns the name of a slice. No rack can have a name that makes two of them one, or one
// of them a [copyName].
func sliceName(rack string, generation int64) string {
	return fmt.Sprintf("%s.%s.%d", AcceptedName, rack, generation)
}

// generationOf returns the generation of a ConfigMap; 0 where the annotation is missing or was tampered with.
func generationOf(cm *v1.ConfigMap) int64 {
	n, err := strconv.ParseInt(cm.Annotations[AnnotationGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func documentOf(cm *v1.ConfigMap) document.Document {
	return document.Document{Source: documentSource(cm, keyInventory), Data: []byte(cm.Data[keyInventory])}
}

// listed returns the racks, with the generations of their slices, that the common ConfigMap lists
// under a key, in its order; none where there is no such ConfigMap.
func listed(common *v1.ConfigMap, key string) iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		if common == nil {
			return
		}
		for line := range strings.Lines(common.Data[key]) {
			rack, n, _ := strings.Cut(strings.TrimSpace(line), " ")
			if generation, err := strconv.ParseInt(n, 10, 64); err == nil && !yield(rack, generation) {
				return
			}
		}
	}
}

func part(inventoryName, name string, text []byte, generation int64) *v1.ConfigMap {
	cm := &v1.ConfigMap{Data: map[string]string{keyInventory: string(text)}}
	cm.Name = name
	cm.Labels = map[string]string{LabelAccepted: inventoryName}
	cm.Annotations = map[string]string{AnnotationGeneration: strconv.FormatInt(generation, 10), inventory.AnnotationFormat: "1"}
	return cm
}

// previousOf returns the copy of the ConfigMap that lists the slices, which is kept as that of the previous generation.
func previousOf(common *v1.ConfigMap) *v1.ConfigMap {
	cm := &v1.ConfigMap{Data: common.Data}
	cm.Name, cm.Labels = PreviousName, common.Labels
	cm.Annotations = map[string]string{AnnotationGeneration: strconv.FormatInt(generationOf(common), 10), inventory.AnnotationFormat: "1"}
	if format := common.Annotations[inventory.AnnotationFormat]; format != "" {
		cm.Annotations[annotationFormatThen] = format
	}
	return cm
}

// ErrUnreadable means that the accepted inventory was damaged. A reconciler that
// still knows it stores it again; one that does not must not begin with nothing,
// for machines that are held would be forgotten and pod CIDRs given anew. It goes on with what can be read,
// and stores the next edit that is taken up.
var ErrUnreadable = errors.New("it cannot be read, and is stored anew once the inventory has no errors")

// checkText returns an error where a ConfigMap has no text: as YAML that is no mistake.
func checkText(cm *v1.ConfigMap) error {
	if strings.TrimSpace(cm.Data[keyInventory]) == "" {
		return fmt.Errorf("%w: key %s of configmap %s is empty", ErrUnreadable, keyInventory, cm.Name)
	}
	return nil
}

// checkFormats returns the error of the first ConfigMap, by name, that a newer version
// stored in a format of its own. Those that are nil are passed over.
func checkFormats(parts ...*v1.ConfigMap) error {
	parts = slices.DeleteFunc(parts, func(cm *v1.ConfigMap) bool { return cm == nil })
	slices.SortFunc(parts, func(a, b *v1.ConfigMap) int { return strings.Compare(a.Name, b.Name) })
	for _, cm := range parts {
		if err := inventory.CheckFormat("configmap "+cm.Name, cm.Annotations, document.ReadsFormat); err != nil {
			return err
		}
	}
	return nil
}

// maxStored is the number of bytes of values that the API server lets a ConfigMap have.
const maxStored = v1.MaxSecretSize
