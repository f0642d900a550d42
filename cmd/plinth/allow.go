package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/inventory/source"
)

func newAllowCommand() *cobra.Command {
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "allow DIGEST",
		Short: "Let one refused edit pass",
		Long: `Let an edit pass that was refused for what it would take away.

DIGEST is what the refusal names. It stands for exactly these losses: an edit that takes away
anything else is refused as before. It is written as the annotation plinth.dev/allow on the ConfigMap
that lists what was accepted, and on one that carries the inventory if any does. Who keeps the latter
in Git writes it there.`,
		Example: "  plinth allow 3f9a1c0e5b7d2468",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !digestForm.MatchString(args[0]) {
				return exit{exitUsage, fmt.Errorf("%q is no digest: want the 16 hexadecimal digits that the refusal names", args[0])}
			}
			client, namespace, err := cluster.installation(cmd.Context())
			if err != nil {
				return err
			}
			said, err := allow(cmd.Context(), client, namespace, args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
			return err
		},
	}
	cluster.addTo(cmd)
	return cmd
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// allow writes the annotation, and says where.
func allow(ctx context.Context, client kubernetes.Interface, namespace, digest string) (string, error) {
	on, err := carriersOf(ctx, client, namespace)
	if err != nil {
		return "", err
	}
	var names []string
	for _, cm := range on {
		if err := allowOn(ctx, client, cm, digest); err != nil {
			return "", fmt.Errorf("configmap %s: %w", cm.Name, err)
		}
		names = append(names, cm.Name)
	}
	return "allowed on configmap " + strings.Join(names, " and "), nil
}

func allowOn(ctx context.Context, client kubernetes.Interface, cm v1.ConfigMap, digest string) error {
	digests := edit.AllowedBy(cm.Annotations[edit.AnnotationAllow])
	if slices.Contains(digests, digest) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": cm.ResourceVersion,
		"annotations":     map[string]string{edit.AnnotationAllow: strings.Join(append(digests, digest), ",")},
	}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ConfigMaps(cm.Namespace).Patch(ctx, cm.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// carriersOf are the ConfigMaps that a leave is written on: the one that lists what was accepted,
// and the youngest of those that carry the inventory, which is no copy that kustomize left behind.
func carriersOf(ctx context.Context, client kubernetes.Interface, namespace string) ([]v1.ConfigMap, error) {
	maps := client.CoreV1().ConfigMaps(namespace)
	accepted, err := maps.Get(ctx, source.AcceptedName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errors.New("no inventory is in force in namespace " + namespace)
	}
	if err != nil {
		return nil, err
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: source.LabelInventory})
	if err != nil {
		return nil, err
	}
	on := []v1.ConfigMap{*accepted}
	if len(list.Items) > 0 {
		on = append(on, slices.MinFunc(list.Items, func(a, b v1.ConfigMap) int {
			return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
		}))
	}
	return on, nil
}
