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
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory"
)

// How the accepted inventory is kept in ConfigMaps: what all machines need in
// one, each rack in one of its own.
const (
	AcceptedName         = "plinth-accepted"       // the ConfigMap; those of racks add "-" and the rack's name
	LabelAccepted        = "plinth.dev/accepted"   // on each of them: the inventory's name
	AnnotationGeneration = "plinth.dev/generation" // of the last change of that ConfigMap

	// Format is the number of the format of these ConfigMaps; see [inventory.AnnotationFormat].
	Format = 1

	keyInventory = "inventory.yaml"
	keyRacks     = "racks" // of the common one: "<rack> <generation of its slice>", a line each
)

// acceptedName is the name of the ConfigMap of a rack; of the common one where
// the rack is empty.
func acceptedName(rack string) string {
	if rack == "" {
		return AcceptedName
	}
	return AcceptedName + "-" + rack
}

// accepted is an inventory as it is stored in the cluster.
type accepted struct {
	inventory  *inventory.Inventory // nil: nothing was accepted yet
	generation int64
	slices     map[string]*v1.ConfigMap // by name; the common one among them
}

// shelf is where accepted inventories are kept.
type shelf struct {
	client    kubernetes.Interface
	namespace string
}

// Accepted reads the inventory that is in force in a cluster; nil where none is.
func Accepted(ctx context.Context, client kubernetes.Interface, namespace string) (*inventory.Inventory, error) {
	have, err := shelf{client: client, namespace: namespace}.load(ctx)
	return have.inventory, err
}

// errUnreadable means that somebody spoiled what was accepted. A keeper that
// still knows it stores it again; one that does not must not begin with nothing,
// for machines that are held would be forgotten and pod CIDRs given anew.
var errUnreadable = errors.New("it cannot be read: restore the ConfigMaps, or delete those labelled " + LabelAccepted + " to begin anew")

// load reads what was accepted. The list is read from etcd, not from a cache
// that may lag behind it.
func (s shelf) load(ctx context.Context) (accepted, error) {
	list, err := s.client.CoreV1().ConfigMaps(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: LabelAccepted})
	if err != nil {
		return accepted{}, fmt.Errorf("reading the accepted inventory: %w", err)
	}
	have := accepted{slices: map[string]*v1.ConfigMap{}}
	for i := range list.Items {
		have.slices[list.Items[i].Name] = &list.Items[i]
	}
	common, ok := have.slices[AcceptedName]
	if !ok {
		return have, nil
	}
	if err := checkFormats(slices.Collect(maps.Values(have.slices))...); err != nil {
		return accepted{}, fmt.Errorf("the accepted inventory: %w", err)
	}
	have.generation = generationOf(common)
	docs, err := inForce(have.slices)
	if err != nil {
		return have, fmt.Errorf("the accepted inventory of generation %d: %w: %w", have.generation, errUnreadable, err)
	}
	inv, problems := parseAccepted(docs, have.slices)
	if err := problems.Err(); err != nil {
		return have, fmt.Errorf("the accepted inventory of generation %d: %w: %w", have.generation, errUnreadable, err)
	}
	have.inventory = inv
	return have, nil
}

// generation reads the number of the generation that is stored; 0: none is.
func (s shelf) generation(ctx context.Context) (int64, error) {
	common, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, AcceptedName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the accepted inventory: %w", err)
	}
	if err := checkFormats(common); err != nil {
		return 0, fmt.Errorf("the accepted inventory: %w", err)
	}
	return generationOf(common), nil
}

// checkFormats returns the error of the first ConfigMap, by name, that a newer version
// stored in a format of its own. Those that are nil are passed over.
func checkFormats(parts ...*v1.ConfigMap) error {
	parts = slices.DeleteFunc(parts, func(cm *v1.ConfigMap) bool { return cm == nil })
	slices.SortFunc(parts, func(a, b *v1.ConfigMap) int { return strings.Compare(a.Name, b.Name) })
	for _, cm := range parts {
		if err := inventory.CheckFormat("configmap "+cm.Name, cm.Annotations, Format); err != nil {
			return err
		}
	}
	return nil
}

// save stores an inventory as the generation after have, writing only what
// differs. The slices of the racks come first, then the common ConfigMap, which
// makes the generation valid: until then everybody reads the last one, which the
// slices keep. What somebody else wrote meanwhile is a conflict.
func (s shelf) save(ctx context.Context, inv *inventory.Inventory, have accepted) (accepted, error) {
	next := accepted{inventory: inv, generation: have.next(), slices: map[string]*v1.ConfigMap{}}
	want := shelve(inv, next.generation, have)
	if same(want, have.slices) {
		return have, nil
	}
	for _, name := range writingOrder(want) {
		written, err := s.write(ctx, want[name], have.slices[name])
		if err != nil {
			return have, fmt.Errorf("storing the accepted inventory: configmap %s: %w", name, err)
		}
		next.slices[name] = written
	}
	for name := range have.slices {
		if err := s.discard(ctx, name, want); err != nil {
			return next, fmt.Errorf("storing the accepted inventory: configmap %s of a rack that is gone: %w", name, err)
		}
	}
	return next, nil
}

func (s shelf) write(ctx context.Context, want, have *v1.ConfigMap) (*v1.ConfigMap, error) {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	switch {
	case have == nil:
		return maps.Create(ctx, want, metav1.CreateOptions{})
	case sameSlice(want, have):
		return have, nil
	}
	want.ResourceVersion = have.ResourceVersion
	return maps.Update(ctx, want, metav1.UpdateOptions{})
}

func (s shelf) discard(ctx context.Context, name string, want map[string]*v1.ConfigMap) error {
	if _, ok := want[name]; ok {
		return nil
	}
	err := s.client.CoreV1().ConfigMaps(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// shelve makes the ConfigMaps of an inventory. A slice that did not change
// keeps the generation of its last change.
func shelve(inv *inventory.Inventory, generation int64, have accepted) map[string]*v1.ConfigMap {
	out := map[string]*v1.ConfigMap{}
	var racks strings.Builder
	reads := readGenerations(have.slices)
	for _, rack := range inv.Racks {
		slice := part(inv.Name, acceptedName(rack.Name), inv.Slice(rack.Name), generation)
		if old, ok := have.slices[slice.Name]; ok {
			if old.Data[keyInventory] == slice.Data[keyInventory] {
				setGeneration(slice, generationOf(old))
			}
			keep(slice, old, reads[rack.Name])
		}
		fmt.Fprintf(&racks, "%s %d\n", rack.Name, generationOf(slice))
		out[slice.Name] = slice
	}
	common := part(inv.Name, AcceptedName, inv.Common(), generation)
	common.Data[keyRacks] = racks.String()
	out[common.Name] = common
	return out
}

func part(inventoryName, name string, inv *inventory.Inventory, generation int64) *v1.ConfigMap {
	cm := &v1.ConfigMap{Data: map[string]string{keyInventory: string(inv.FormatAccepted())}}
	cm.Name = name
	cm.Labels = map[string]string{LabelAccepted: inventoryName}
	setGeneration(cm, generation)
	return cm
}

// same reports whether nothing would have to be written but the number of the
// generation.
func same(want, have map[string]*v1.ConfigMap) bool {
	return maps.EqualFunc(want, have, func(w, h *v1.ConfigMap) bool {
		return maps.Equal(w.Data, h.Data) && w.Labels[LabelAccepted] == h.Labels[LabelAccepted]
	})
}

func sameSlice(want, have *v1.ConfigMap) bool {
	return maps.Equal(want.Data, have.Data) && generationOf(want) == generationOf(have) &&
		want.Labels[LabelAccepted] == have.Labels[LabelAccepted]
}

// writingOrder sorts the names, the common one last.
func writingOrder(parts map[string]*v1.ConfigMap) []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(parts)), func(n string) bool { return n == AcceptedName })
	return append(names, AcceptedName)
}

func setGeneration(cm *v1.ConfigMap, n int64) {
	cm.Annotations = map[string]string{AnnotationGeneration: strconv.FormatInt(n, 10), inventory.AnnotationFormat: strconv.Itoa(Format)}
}

// generationOf is 0 where the annotation is missing or was tampered with: the
// ConfigMap is then written anew.
func generationOf(cm *v1.ConfigMap) int64 {
	n, err := strconv.ParseInt(cm.Annotations[AnnotationGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// sliceGenerations reads the generation of each rack's slice from the common ConfigMap.
func sliceGenerations(common *v1.ConfigMap) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(common.Data[keyRacks]) {
		rack, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		if generation, err := strconv.ParseInt(n, 10, 64); err == nil {
			out[rack] = generation
		}
	}
	return out
}
