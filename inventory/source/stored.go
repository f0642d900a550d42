package source

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
)

// A slice is written in place before the common ConfigMap makes its generation valid. Until
// then, and for ever if the controller manager dies in between, the generation in force is
// the one before: the slice keeps it beside the new one. Nobody reads a slice but of the
// generation that the common ConfigMap lists.
const (
	annotationPrevious = "plinth.dev/previous-generation" // of what keyPrevious has
	keyPrevious        = "previous.yaml.gz"               // in binaryData: keyInventory as it was
)

// maxStored is how many bytes of values the API server lets a ConfigMap have.
const maxStored = v1.MaxSecretSize

// textOf returns what a slice says of a generation; false: it says nothing of that one.
func textOf(slice *v1.ConfigMap, generation int64) (string, bool) {
	switch {
	case slice == nil:
		return "", false
	case generationOf(slice) == generation:
		return slice.Data[keyInventory], true
	case slice.Annotations[annotationPrevious] != strconv.FormatInt(generation, 10):
		return "", false
	}
	r, err := gzip.NewReader(bytes.NewReader(slice.BinaryData[keyPrevious]))
	if err != nil {
		return "", false
	}
	text, err := io.ReadAll(io.LimitReader(r, maxStored))
	return string(text), err == nil
}

// keep has a slice keep what another says of a generation.
func keep(slice, old *v1.ConfigMap, generation int64) {
	text, ok := textOf(old, generation)
	if !ok || generationOf(slice) == generation {
		return
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a level that there is
	_, _ = io.WriteString(w, text)                        // a buffer takes everything
	_ = w.Close()
	slice.BinaryData = map[string][]byte{keyPrevious: b.Bytes()}
	slice.Annotations[annotationPrevious] = strconv.FormatInt(generation, 10)
}

// inForce returns the documents of the generation that is in force: the common one, and
// each slice that is read with it, sorted by rack.
func inForce(parts map[string]*v1.ConfigMap) ([]inventory.Document, error) {
	common := parts[AcceptedName]
	docs := []inventory.Document{{Source: documentSource(common, keyInventory), Data: []byte(common.Data[keyInventory])}}
	reads := readGenerations(parts)
	for _, rack := range slices.Sorted(maps.Keys(reads)) {
		name := acceptedName(rack)
		text, ok := textOf(parts[name], reads[rack])
		if !ok {
			return nil, fmt.Errorf("configmap %s lacks generation %d of rack %s, which configmap %s lists", name, reads[rack], rack, AcceptedName)
		}
		docs = append(docs, inventory.Document{Source: documentSource(parts[name], keyInventory), Data: []byte(text)})
	}
	return docs, nil
}

// next is the generation after all that were ever written: one that failed half-way is not
// written again with another content. What is far from the one in force was written by hand.
func (a accepted) next() int64 {
	const far = 1 << 20
	last := a.generation
	for _, slice := range a.slices {
		if n := generationOf(slice); n > last && n-a.generation < far {
			last = n
		}
	}
	return last + 1
}

// sizeOf is what the API server counts of a ConfigMap, in bytes.
func sizeOf(cm *v1.ConfigMap) (n int) {
	for _, v := range cm.Data {
		n += len(v)
	}
	for _, v := range cm.BinaryData {
		n += len(v)
	}
	return n
}

// tooLarge says what of an inventory does not fit into its ConfigMap, once have is stored.
func tooLarge(inv *inventory.Inventory, have accepted) (problems inventory.Problems) {
	parts := shelve(inv, have.next(), have)
	for _, rack := range inv.Racks {
		if n := sizeOf(parts[acceptedName(rack.Name)]); n > maxStored {
			problems = append(problems, inventory.TooLargeRack(rack.Name, len(rack.Machines), n, maxStored))
		}
	}
	if n := sizeOf(parts[AcceptedName]); n > maxStored {
		problems = append(problems, inventory.TooLargeCommon(n, maxStored))
	}
	return problems
}
