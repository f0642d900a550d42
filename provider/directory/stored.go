package directory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/routing"
)

const (
	// IndexName is the name of the ConfigMap with the [Index].
	IndexName = "plinth-nodes"

	// LabelRack is on each page: the rack that its Nodes are in; empty: they are in none, or their label is not the name of one.
	LabelRack = "plinth.dev/nodes-of"

	// What is on the index and all pages, as package inventory/source knows it.
	labelAccepted, ofDirectory = "plinth.dev/accepted", "plinth_nodes"

	// Selector selects the index and all pages.
	Selector = labelAccepted + "=" + ofDirectory

	unplacedName = IndexName + "-unplaced"

	keyRacks   = "racks.json"    // of the index: names of racks
	keyMissing = "missing.json"  // of the index: names of racks
	keyInPools = "in-pools.json" // of the index: addresses by the name of the Node that has them
	keyNodes   = "nodes.json"    // of a page: a line each

	// format must not be more than 3 while programs are supported that read no directory: they hold it for a part of the accepted inventory.
	format = 1

	// maxStored is the number of bytes that a ConfigMap may have: an object may have 1 MiB (etcd's limit is 1.5 MiB).
	maxStored = 900 << 10
)

// indexOf is the index, but for the racks.
func indexOf(nodes []*v1.Node) Index {
	index := Index{InPools: map[string][]netip.Prefix{}}
	for _, node := range nodes {
		if node.Labels[lb.InPoolLabel] != "" {
			index.InPools[node.Name] = TakenOf(node)
		}
	}
	return index
}

// placeOf is the rack of the page that has Nodes whose label says a rack.
func placeOf(rack string) string {
	if rack != "" && len(validation.IsDNS1123Subdomain(rack)) > 0 {
		return "" // the label is somebody else's: no rack of an inventory is called so
	}
	return rack
}

// PageName returns the name of the ConfigMap with the page of a rack; the rack is empty for Nodes that are in none.
func PageName(rack string) string {
	if rack == "" {
		return unplacedName
	}
	return IndexName + "." + rack
}

// RackOf returns the rack of which a ConfigMap of this name is the page; false: it is no page.
func RackOf(name string) (rack string, page bool) {
	if name == unplacedName {
		return "", true
	}
	return strings.CutPrefix(name, IndexName+".")
}

// Page is the Nodes of a rack, by name.
type Page []*routing.Node

func byName(a, b *routing.Node) int { return cmp.Compare(a.Name, b.Name) }

// find returns where in a page a Node of this name is, or would be.
func (p Page) find(name string) (i int, there bool) {
	return slices.BinarySearchFunc(p, name, func(n *routing.Node, name string) int { return cmp.Compare(n.Name, name) })
}

// with returns a page that has others besides.
func (p Page) with(others Page) Page {
	all := slices.Concat(p, others)
	slices.SortFunc(all, byName)
	return all
}

// pagesOf are the pages of all racks that Nodes are in.
func pagesOf(nodes []*v1.Node) map[string]Page {
	places, pages := map[string]string{}, map[string]Page{}
	for _, node := range nodes {
		label := node.Labels[inventory.LabelRack]
		rack, known := places[label]
		if !known {
			rack = placeOf(label)
			places[label] = rack
		}
		pages[rack] = append(pages[rack], new(NodeOf(node)))
	}
	for _, page := range pages {
		slices.SortFunc(page, byName)
	}
	return pages
}

// Index is what the directory has besides pages.
type Index struct {
	Racks   []string                  // that have a page, sorted
	Missing []string                  // that have Nodes and no page, for it would be too large, or cannot be stored
	InPools map[string][]netip.Prefix // what Nodes that bear [lb.InPoolLabel] have, by their names; see [TakenOf]
}

// configMap returns the ConfigMap of a page; false: it is too large for one.
func (p Page) configMap(rack string) (cm *v1.ConfigMap, fits bool) {
	var text strings.Builder
	for _, node := range p {
		line, _ := json.Marshal(node) // of such a type it always succeeds
		text.Write(append(line, '\n'))
	}
	cm = stored(PageName(rack), map[string]string{keyNodes: text.String()})
	cm.Labels[LabelRack] = rack
	return cm, text.Len() <= maxStored
}

// configMap returns the ConfigMap of the index; false: it is too large for one.
func (x Index) configMap() (cm *v1.ConfigMap, fits bool) {
	racks, _ := json.Marshal(append([]string{}, x.Racks...)) // of such types it always succeeds
	missing, _ := json.Marshal(append([]string{}, x.Missing...))
	inPools, _ := json.Marshal(x.InPools)
	cm = stored(IndexName, map[string]string{keyRacks: string(racks), keyMissing: string(missing), keyInPools: string(inPools)})
	return cm, len(racks)+len(missing)+len(inPools) <= maxStored
}

func stored(name string, data map[string]string) *v1.ConfigMap {
	return &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{labelAccepted: ofDirectory}, Annotations: map[string]string{inventory.AnnotationFormat: fmt.Sprint(format)},
		},
		Data: data,
	}
}

// says reports whether a ConfigMap says all that it is to say. It may have labels and annotations of others besides.
func says(have, want *v1.ConfigMap) bool {
	return maps.Equal(have.Data, want.Data) && hasAll(have.Labels, want.Labels) && hasAll(have.Annotations, want.Annotations)
}

func hasAll(have, want map[string]string) bool {
	for key, value := range want {
		if had, there := have[key]; !there || had != value {
			return false
		}
	}
	return true
}

// over returns the ConfigMap that says what it is to say, with what others added.
func over(have, want *v1.ConfigMap) *v1.ConfigMap {
	next := have.DeepCopy()
	next.Data, next.BinaryData = want.Data, nil
	next.Labels, next.Annotations = maps.Clone(want.Labels), maps.Clone(want.Annotations)
	addMissing(next.Labels, have.Labels)
	addMissing(next.Annotations, have.Annotations)
	return next
}

func addMissing(to, from map[string]string) {
	for key, value := range from {
		if _, there := to[key]; !there {
			to[key] = value
		}
	}
}

// PageIn reads the page in a ConfigMap. Its error means that somebody else wrote that, or a newer version did: [inventory.NewerFormatError].
func PageIn(cm *v1.ConfigMap) (Page, error) {
	if err := inventory.CheckFormat("configmap "+cm.Name, cm.Annotations, format); err != nil {
		return nil, err
	}
	text, there := cm.Data[keyNodes]
	if !there {
		return nil, fmt.Errorf("configmap %s has no key %s", cm.Name, keyNodes)
	}
	page := Page{}
	for line := range strings.Lines(text) {
		node := new(routing.Node)
		if err := json.Unmarshal([]byte(line), node); err != nil {
			return nil, fmt.Errorf("configmap %s, key %s: %w", cm.Name, keyNodes, err)
		}
		if node.Name == "" {
			return nil, fmt.Errorf("configmap %s, key %s: a Node without a name", cm.Name, keyNodes)
		}
		page = append(page, node)
	}
	return page, nil
}

// IndexIn reads the index in a ConfigMap; its error is as that of [PageIn].
func IndexIn(cm *v1.ConfigMap) (x Index, err error) {
	if err := inventory.CheckFormat("configmap "+cm.Name, cm.Annotations, format); err != nil {
		return Index{}, err
	}
	for key, to := range map[string]any{keyRacks: &x.Racks, keyMissing: &x.Missing, keyInPools: &x.InPools} {
		if err := json.Unmarshal([]byte(cm.Data[key]), to); err != nil {
			return Index{}, fmt.Errorf("configmap %s, key %s: %w", cm.Name, key, err)
		}
	}
	return x, nil
}
