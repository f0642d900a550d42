package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// How the accepted inventory is kept in ConfigMaps: each rack in slices of its own, which are
// named by generation and never changed, and what all machines need in one more, which lists
// the slices that are in force. Only that one's write is the commit of a generation.
const (
	AcceptedName         = "plinth-accepted"       // the ConfigMap that lists the slices
	LabelAccepted        = "plinth.dev/accepted"   // on each of them: the inventory's name
	AnnotationGeneration = "plinth.dev/generation" // of the last change of that ConfigMap

	keyInventory = "inventory.yaml"
	keyRacks     = "racks"    // of the common one: "<rack> <generation of its slice>", a line each
	keyPrevious  = "previous" // of the common one: what racks was in the generation before
)

// sliceName is the name of a slice. No rack can have a name that makes two of them one, or one
// of them a [copyName].
func sliceName(rack string, generation int64) string {
	return fmt.Sprintf("%s.%s.%d", AcceptedName, rack, generation)
}

// accepted is an inventory as it is stored in the cluster.
type accepted struct {
	inventory  *inventory.Inventory // in force; nil: nothing was accepted yet
	stored     *inventory.Inventory // what the ConfigMaps say; nil: nothing that can be read
	generation int64
	parts      map[string]*v1.ConfigMap // by name
	rest       *inventory.Inventory     // what is known of one that cannot be read as a whole; nil: nothing
}

// acceptedStore is where accepted inventories are kept.
type acceptedStore struct {
	client    kubernetes.Interface
	namespace string
	lease     string // that its writer leads by; empty: it was not elected
	program   string // of its writer; empty: it is called as those of Plinth's
}

func (s acceptedStore) maps() clientcorev1.ConfigMapInterface {
	return s.client.CoreV1().ConfigMaps(s.namespace)
}

// Accepted reads the inventory that is in force in a cluster; nil where none is. With an error that is
// [ErrUnreadable] it returns what a controller goes on with that knows nothing else; nil where that is nothing.
func Accepted(ctx context.Context, client kubernetes.Interface, namespace string) (*inventory.Inventory, error) {
	have, err := acceptedStore{client: client, namespace: namespace}.load(ctx)
	return have.inventory, err
}

// ErrUnreadable means that somebody spoiled what was accepted. A reconciler that
// still knows it stores it again; one that does not must not begin with nothing,
// for machines that are held would be forgotten and pod CIDRs given anew. It goes on with what can be read,
// and stores the next edit that is taken up.
var ErrUnreadable = errors.New("it cannot be read, and is stored anew once the inventory has no errors")

// load reads what was accepted. One list is of one moment: of etcd's, not of a cache that may
// lag behind it.
func (s acceptedStore) load(ctx context.Context) (accepted, error) {
	list, err := s.maps().List(ctx, metav1.ListOptions{LabelSelector: LabelAccepted})
	if err != nil {
		return accepted{}, fmt.Errorf("reading the accepted inventory: %w", err)
	}
	have := accepted{parts: map[string]*v1.ConfigMap{}}
	for i := range list.Items {
		have.parts[list.Items[i].Name] = &list.Items[i]
	}
	if err := checkFormats(slices.Collect(maps.Values(have.parts))...); err != nil {
		return accepted{}, fmt.Errorf("the accepted inventory: %w", err)
	}
	common, ok := have.parts[AcceptedName]
	if !ok && !anyCopy(have.parts) && have.parts[PreviousName] == nil {
		return have, nil
	}
	docs, err := have.documents(common)
	if err == nil {
		have.generation = generationOf(common)
		have.inventory, err = parseAccepted(docs)
	}
	if err != nil {
		var whole bool
		have.generation = have.latest()
		if have.rest, whole = have.remains(); whole {
			have.inventory = have.rest
		}
		return have, fmt.Errorf("the accepted inventory of generation %d: %w", have.generation, err)
	}
	have.stored = have.inventory
	if slices.ContainsFunc(slices.Collect(have.stored.Machines()), unreachable) && len(document.ReadsBack(have.stored, docs...)) > 0 {
		have.stored = nil // older versions cannot read it: it is stored anew
	}
	return have, nil
}

// documents are the ConfigMap that lists the slices, and those.
func (a accepted) documents(common *v1.ConfigMap) ([]document.Document, error) {
	if common == nil {
		return nil, fmt.Errorf("%w: there is no configmap %s", ErrUnreadable, AcceptedName)
	}
	if err := a.spoilt(common); err != nil {
		return nil, err
	}
	docs := []document.Document{documentOf(common)}
	for rack, n := range listed(common, keyRacks) {
		slice, ok := sliceIn(a.parts, rack, n)
		if !ok {
			return nil, fmt.Errorf("%w: there is no configmap %s", ErrUnreadable, sliceName(rack, n))
		}
		docs = append(docs, slice)
	}
	return docs, nil
}

func parseAccepted(docs []document.Document) (*inventory.Inventory, error) {
	inv, problems := document.ParseAccepted(docs...)
	if err := problems.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return inv, nil
}

// unreachable reports whether a machine has no address left. An earlier version stored such machines so that
// it could not read them itself.
func unreachable(m inventory.Machine) bool { return m.Held && len(m.Addresses) == 0 }

// generation reads the number of the generation that is stored; 0: none is.
func (s acceptedStore) generation(ctx context.Context) (int64, error) {
	common, err := s.maps().Get(ctx, AcceptedName, metav1.GetOptions{})
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
		if err := inventory.CheckFormat("configmap "+cm.Name, cm.Annotations, document.ReadsFormat); err != nil {
			return err
		}
	}
	return nil
}

// save stores an inventory as the generation after have, writing only what differs: the slices
// of the racks first, then the ConfigMap that lists them. Until that is written the generation
// before is in force, and nothing of it is touched. What somebody else wrote meanwhile is a
// conflict.
func (s acceptedStore) save(ctx context.Context, inv *inventory.Inventory, have accepted) (accepted, error) {
	next := accepted{inventory: inv, stored: inv, parts: map[string]*v1.ConfigMap{}}
	maps.Copy(next.parts, have.parts)
	parts := render(inv, have)
	err := notReadBack(inv, have, parts).Err()
	if err != nil {
		return have, fmt.Errorf("nothing is stored of the inventory: %w", err)
	}
	for _, want := range parts {
		if want.Name == AcceptedName && have.stored != nil && have.lacks(want) {
			if next.parts[PreviousName], err = s.write(ctx, previousOf(have.parts[AcceptedName]), have); err != nil {
				return have, fmt.Errorf("storing the accepted inventory: configmap %s: %w", PreviousName, err)
			}
		}
		written, err := s.write(ctx, want, have)
		if err != nil {
			return have, fmt.Errorf("storing the accepted inventory: configmap %s: %w", want.Name, err)
		}
		next.parts[want.Name] = written
	}
	next.generation = generationOf(next.parts[AcceptedName])
	return next, nil
}

// tidy does what a commit leaves to do, for as often as it takes.
func (s acceptedStore) tidy(ctx context.Context, have accepted) error {
	copies, gone := have.leftOver()
	for _, want := range copies {
		written, err := s.put(ctx, want, have.parts[want.Name])
		if err != nil {
			return fmt.Errorf("configmap %s: %w", want.Name, err)
		}
		have.parts[want.Name] = written
	}
	for _, name := range gone {
		if err := s.maps().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting configmap %s, which is not listed any more: %w", name, err)
		}
		delete(have.parts, name)
	}
	return nil
}

// leftOver are the copies for older versions that are to be written, and the names, sorted, of the slices that
// neither the generation in force lists nor the one before, which somebody may be about to read.
func (a accepted) leftOver() (copies []*v1.ConfigMap, gone []string) {
	common, ok := a.parts[AcceptedName]
	if !ok {
		return nil, nil
	}
	keep := map[string]bool{AcceptedName: true, PreviousName: true, TrialName: true}
	for rack, n := range listed(common, keyRacks) {
		keep[copyName(rack)], keep[sliceName(rack, n)] = true, true
		slice := a.parts[sliceName(rack, n)]
		if slice == nil {
			continue
		}
		if want := copyOf(rack, slice); a.lacks(want) {
			copies = append(copies, want)
		}
	}
	for rack, n := range listed(common, keyPrevious) {
		keep[sliceName(rack, n)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(a.parts)) {
		if !keep[name] && generationOf(a.parts[name]) <= a.generation { // else another leader is about to list it
			gone = append(gone, name)
		}
	}
	return copies, gone
}

// lacks reports whether a ConfigMap is not stored as it is to be.
func (a accepted) lacks(want *v1.ConfigMap) bool {
	have := a.parts[want.Name]
	return have == nil || !maps.Equal(want.Data, have.Data) || !maps.Equal(want.Labels, have.Labels) || generationOf(want) != generationOf(have)
}

// with is what is stored, as another inventory that says the same.
func (a accepted) with(inv *inventory.Inventory) accepted {
	a.inventory, a.stored, a.generation = inv, inv, generationOf(a.parts[AcceptedName])
	return a
}

// write is put, where what have has there differs.
func (s acceptedStore) write(ctx context.Context, want *v1.ConfigMap, have accepted) (*v1.ConfigMap, error) {
	was := have.parts[want.Name]
	if !have.lacks(want) {
		return was, nil
	}
	return s.put(ctx, want, was)
}

// put writes a ConfigMap in the place of another; nil: there is none.
func (s acceptedStore) put(ctx context.Context, want, have *v1.ConfigMap) (*v1.ConfigMap, error) {
	s.sign(want, have)
	if have == nil {
		return s.maps().Create(ctx, want, metav1.CreateOptions{})
	}
	want.ResourceVersion = have.ResourceVersion
	return s.maps().Update(ctx, want, metav1.UpdateOptions{})
}
