package source

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
)

// Follow calls set with the accepted inventory as the machines of one rack need
// it (what is common, and that rack), once it is there and after each change,
// until ctx ends. It watches the ConfigMap that lists the slices, and reads the slice that it
// lists, so that a rack never sees its new peers before the routers that they name. While
// there is nothing such it hands out nothing. What is there and cannot be
// read is an error and no inventory: whatever was handed out before stays in force.
func Follow(ctx context.Context, client kubernetes.Interface, namespace, rack string, set func(*inventory.Inventory, error)) error {
	common := coreinformers.NewFilteredConfigMapInformer(client, namespace, resync, cache.Indexers{},
		func(o *metav1.ListOptions) { *o = named(*o, AcceptedName) })
	store, last := acceptedStore{client, namespace}, ""
	return follow(ctx, func() error {
		obj, ok, err := common.GetStore().GetByKey(cache.NewObjectName(namespace, AcceptedName).String())
		if !ok || err != nil {
			return err
		}
		docs, err := store.loadRack(ctx, obj.(*v1.ConfigMap), rack)
		if newer := (*inventory.NewerFormatError)(nil); errors.As(err, &newer) {
			last = "" // handed out again once it can be read
			set(nil, err)
			return nil
		}
		if err != nil || len(docs) == 0 {
			return err
		}
		if content := string(docs[0].Data) + string(docs[1].Data); content != last {
			last = content
			handOut(docs, set)
		}
		return nil
	}, common)
}

func handOut(docs []inventory.Document, set func(*inventory.Inventory, error)) {
	inv, problems := inventory.ParseAccepted(docs...)
	if err := problems.Err(); err != nil {
		set(nil, fmt.Errorf("the accepted inventory cannot be read: %w", err))
		return
	}
	set(inv, nil)
}

// loadRack reads the slice of a rack that is listed; none where the rack is not. One that is
// gone is an error: what lists it is then older than what is in force, or somebody deleted it.
func (s acceptedStore) loadRack(ctx context.Context, common *v1.ConfigMap, rack string) ([]inventory.Document, error) {
	if err := checkFormats(common); err != nil {
		return nil, err
	}
	for name, n := range listed(common, keyRacks) {
		if name != rack {
			continue
		}
		parts := map[string]*v1.ConfigMap{}
		for _, name := range []string{sliceName(rack, n), copyName(rack)} {
			if err := s.loadPart(ctx, parts, name); err != nil {
				return nil, err
			}
			if slice, ok := sliceIn(parts, rack, n); ok {
				return []inventory.Document{documentOf(common), slice}, nil
			}
		}
		return nil, fmt.Errorf("configmap %s is not there, which configmap %s lists", sliceName(rack, n), AcceptedName)
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

// named selects a single object.
func named(o metav1.ListOptions, name string) metav1.ListOptions {
	o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return o
}
