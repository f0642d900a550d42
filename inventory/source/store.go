package source

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// acceptedStore is the store of accepted inventories.
type acceptedStore struct {
	client    kubernetes.Interface
	namespace string
	lease     string // that its writer leads by; empty: it was not elected
	program   string // of its writer; empty: it is called as those of Plinth's
}

func (s acceptedStore) maps() clientcorev1.ConfigMapInterface {
	return s.client.CoreV1().ConfigMaps(s.namespace)
}

// load reads the accepted inventory. One list is of one moment: of etcd's, not of a cache that may
// lag behind it.
func (s acceptedStore) load(ctx context.Context) (accepted, error) {
	list, err := s.maps().List(ctx, metav1.ListOptions{LabelSelector: selectAccepted})
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

// save stores an inventory as the generation after have, writing only what differs: the slices
// of the racks first, then the ConfigMap that lists them. Until that is written the generation
// before is in force, and nothing of it is touched. A write of another client meanwhile is a
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

// tidy completes a commit, and may be repeated as often as it takes.
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
	sign(want, have, s.lease, s.program)
	if have == nil {
		return s.maps().Create(ctx, want, metav1.CreateOptions{})
	}
	want.ResourceVersion = have.ResourceVersion
	return s.maps().Update(ctx, want, metav1.UpdateOptions{})
}

// loadRack reads the slice of a rack that is listed; none where the rack is not. One that is
// gone is an error: what lists it is then older than what is in force, or it was deleted.
func (s acceptedStore) loadRack(ctx context.Context, common *v1.ConfigMap, rack string) ([]document.Document, error) {
	if err := checkFormats(common); err != nil {
		return nil, err
	}
	for name, generation := range listed(common, keyRacks) {
		if name != rack {
			continue
		}
		parts := map[string]*v1.ConfigMap{}
		for _, name := range []string{sliceName(rack, generation), copyName(rack)} {
			if err := s.loadPart(ctx, parts, name); err != nil {
				return nil, err
			}
			if slice, ok := sliceIn(parts, rack, generation); ok {
				return []document.Document{documentOf(common), slice}, nil
			}
		}
		return nil, fmt.Errorf("configmap %s is not there, which configmap %s lists", sliceName(rack, generation), AcceptedName)
	}
	return nil, nil
}

// loadPart reads a ConfigMap as an agent may, which has no right to get one.
func (s acceptedStore) loadPart(ctx context.Context, parts map[string]*v1.ConfigMap, name string) error {
	list, err := s.maps().List(ctx, named(metav1.ListOptions{}, name))
	if err != nil {
		return err
	}
	for i := range list.Items {
		if part := &list.Items[i]; part.Name == name { // a fake client lists all
			parts[name] = part
			return checkFormats(part)
		}
	}
	return nil
}

// Accepted reads the inventory that is in force in a cluster; nil where none is. With an error that is
// [ErrUnreadable] it returns what a controller goes on with that knows nothing else; nil where that is nothing.
func Accepted(ctx context.Context, client kubernetes.Interface, namespace string) (*inventory.Inventory, error) {
	have, err := acceptedStore{client: client, namespace: namespace}.load(ctx)
	return have.inventory, err
}
