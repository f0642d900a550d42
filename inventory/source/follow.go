package source

import (
	"context"
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
// until ctx ends. It reads two ConfigMaps and hands out only what is of one
// generation in both, so that a rack never sees its new peers before the routers that
// they name. While there is nothing such it hands out nothing. What is there and cannot be
// read is an error and no inventory: whatever was handed out before stays in force.
func Follow(ctx context.Context, client kubernetes.Interface, namespace, rack string, set func(*inventory.Inventory, error)) error {
	common := named(client, namespace, acceptedName(""))
	slice := named(client, namespace, acceptedName(rack))
	last := ""
	return follow(ctx, func() {
		c, s := get(common, namespace, acceptedName("")), get(slice, namespace, acceptedName(rack))
		if c == nil {
			return
		}
		if err := checkFormats(c, s); err != nil {
			last = "" // handed out again once it can be read
			set(nil, err)
			return
		}
		text, ok := textOf(s, sliceGenerations(c)[rack])
		if !ok {
			return
		}
		if content := c.Data[keyInventory] + text; content != last {
			last = content
			handOut([]inventory.Document{
				{Source: documentSource(c, keyInventory), Data: []byte(c.Data[keyInventory])},
				{Source: documentSource(s, keyInventory), Data: []byte(text)},
			}, set)
		}
	}, common, slice)
}

func handOut(docs []inventory.Document, set func(*inventory.Inventory, error)) {
	inv, problems := inventory.ParseAccepted(docs...)
	if err := problems.Err(); err != nil {
		set(nil, fmt.Errorf("the accepted inventory cannot be read: %w", err))
		return
	}
	set(inv, nil)
}

// named is an informer of a single ConfigMap.
func named(client kubernetes.Interface, namespace, name string) cache.SharedIndexInformer {
	return coreinformers.NewFilteredConfigMapInformer(client, namespace, resync, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		})
}

// get is a ConfigMap that an informer knows; nil where there is none.
func get(informer cache.SharedIndexInformer, namespace, name string) *v1.ConfigMap {
	obj, ok, err := informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if !ok || err != nil {
		return nil
	}
	return obj.(*v1.ConfigMap)
}
