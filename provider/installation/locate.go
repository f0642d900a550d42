package installation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
)

// controllerPods selects the pods of controllers, in whatever namespace.
const controllerPods = "app.kubernetes.io/name=plinth-cloud-controller-manager"

// Locate returns the namespace of a cluster's installation for somebody who did not say which: the one
// that people expect where it has an inventory in force, else the only one that has, else the only one
// whose lease is held, else the only one with a controller's pod. Where there is none, or it may not be
// looked for, it is the expected one. Several are an error that names them.
func Locate(ctx context.Context, client kubernetes.Interface, expected string) (string, error) {
	cm, err := client.CoreV1().ConfigMaps(expected).Get(ctx, source.AcceptedName, metav1.GetOptions{})
	if err == nil && cm.Annotations[AnnotationMovedTo] == "" {
		return expected, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return expected, nil // whoever reads it next says why it cannot be read
	}
	all, err := Find(ctx, client, source.DefaultLease)
	if err != nil {
		return expected, nil // most people may not, and whoever reads it next says what else is wrong
	}
	for _, ours := range []func(Installation) bool{
		Installation.established,
		func(i Installation) bool { return i.Namespace != expected && i.Holder != "" && i.parkedFor() == "" },
	} {
		if namespaces := those(all, ours); len(namespaces) > 0 {
			return onlyOne(namespaces)
		}
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: controllerPods})
	if err != nil {
		return expected, nil
	}
	var namespaces []string
	for i := range pods.Items {
		namespaces = append(namespaces, pods.Items[i].Namespace)
	}
	if namespaces = inventory.SortedOnce(namespaces); len(namespaces) == 0 || slices.Contains(namespaces, expected) {
		return expected, nil
	}
	return onlyOne(namespaces)
}

func those(all []Installation, ours func(Installation) bool) (namespaces []string) {
	for _, i := range all {
		if ours(i) {
			namespaces = append(namespaces, i.Namespace)
		}
	}
	return namespaces
}

func onlyOne(namespaces []string) (string, error) {
	if len(namespaces) > 1 {
		return "", fmt.Errorf("several namespaces have an installation, say which one with --namespace: %s", strings.Join(namespaces, ", "))
	}
	return namespaces[0], nil
}
