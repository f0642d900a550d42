package installation

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/claim"
)

// copier copies ConfigMaps to a namespace, as that was when the copier was made: what somebody else
// writes there meanwhile is a conflict.
type copier struct {
	move Move
	from map[string]v1.ConfigMap // by name
	have map[string]v1.ConfigMap // what the new namespace has
}

func (m Move) newCopier(ctx context.Context) (copier, error) {
	copying := copier{move: m}
	var err error
	if copying.from, err = m.configMaps(ctx, m.From); err != nil {
		return copying, err
	}
	copying.have, err = m.configMaps(ctx, m.To)
	return copying, err
}

func (m Move) configMaps(ctx context.Context, namespace string) (map[string]v1.ConfigMap, error) {
	list, err := m.Client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the ConfigMaps of namespace %s: %w", namespace, err)
	}
	all := map[string]v1.ConfigMap{}
	for _, cm := range list.Items {
		all[cm.Name] = cm
	}
	return all, nil
}

// managedBy is the label of Helm's objects. Those a release makes itself, and refuses to find there.
const managedBy = "app.kubernetes.io/managed-by"

// people copies the inventory as people write it, unless that is there already.
func (c copier) people(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(c.from)) {
		cm, was := c.from[name], c.have[name]
		if cm.Labels[source.LabelInventory] == "" || was.Name != "" {
			continue
		}
		if cm.Labels[managedBy] == "Helm" {
			c.move.Say(fmt.Sprintf("left configmap %s, which Helm makes anew", name))
			continue
		}
		if err := c.put(ctx, cm); err != nil {
			return err
		}
	}
	return nil
}

// own copies the objects that controllers keep there, the one that puts them into force last.
func (c copier) own(ctx context.Context) error {
	if _, trial := c.from[source.TrialName]; !trial && c.have[source.TrialName].Name != "" {
		if err := c.maps().Delete(ctx, source.TrialName, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting configmap %s, which is of an earlier time: %w", source.TrialName, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.from)) {
		cm := c.from[name]
		kept := cm.Labels[source.LabelAccepted] != "" && cm.Labels[source.LabelAccepted] != source.OfDirectory || name == claim.ReleasedName || name == source.StatusName
		if !kept || name == source.AcceptedName {
			continue
		}
		if err := c.put(ctx, cm); err != nil {
			return err
		}
	}
	return c.put(ctx, c.from[source.AcceptedName])
}

func (c copier) maps() clientcorev1.ConfigMapInterface {
	return c.move.Client.CoreV1().ConfigMaps(c.move.To)
}

// put makes a ConfigMap in the new namespace as it is in the old one.
func (c copier) put(ctx context.Context, cm v1.ConfigMap) error {
	next := &v1.ConfigMap{ObjectMeta: copyMeta(cm.ObjectMeta), Data: cm.Data, BinaryData: cm.BinaryData, Immutable: cm.Immutable}
	was, there := c.have[cm.Name]
	if there && same(*next, was) {
		return nil
	}
	var err error
	switch {
	case !there:
		_, err = c.maps().Create(ctx, next, metav1.CreateOptions{})
	case was.Immutable != nil && *was.Immutable:
		if err = c.maps().Delete(ctx, cm.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &was.ResourceVersion}}); err == nil {
			_, err = c.maps().Create(ctx, next, metav1.CreateOptions{})
		}
	default:
		next.ResourceVersion = was.ResourceVersion
		_, err = c.maps().Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("copying configmap %s: %w", cm.Name, err)
	}
	c.move.Say("copied configmap " + cm.Name)
	return nil
}

// same reports whether a ConfigMap is what is there already.
func same(next, was v1.ConfigMap) bool {
	return maps.Equal(next.Data, was.Data) && maps.Equal(next.Labels, was.Labels) && maps.Equal(next.Annotations, was.Annotations) &&
		maps.EqualFunc(next.BinaryData, was.BinaryData, func(a, b []byte) bool { return bytes.Equal(a, b) })
}
