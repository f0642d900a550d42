package main

import (
	"bytes"
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/importer"
)

// objects are all of some kinds, as one document. A kind that the cluster does not know has none.
func (c clusterFlags) objects(ctx context.Context, kinds []importer.Kind) ([]document.Document, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	known, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := known.ServerGroups()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, kind := range kinds {
		resource, err := resourceOf(known, versionsOf(groups, kind), kind.Kind)
		if err != nil {
			return nil, err
		}
		if resource.Empty() {
			continue
		}
		list, err := client.Resource(resource).Namespace(kind.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			item.SetManagedFields(nil)
			one, err := yaml.Marshal(item.Object)
			if err != nil {
				return nil, err
			}
			text.WriteString("---\n")
			text.Write(one)
		}
	}
	return []document.Document{{Source: inCluster, Data: text.Bytes()}}, nil
}

// versionsOf are the versions that a cluster serves of the group of a kind: the kind's own first, then as the cluster prefers them. An
// older release of the other program serves older ones.
func versionsOf(groups *metav1.APIGroupList, kind importer.Kind) (all []schema.GroupVersion) {
	for _, g := range groups.Groups {
		if g.Name != kind.Group {
			continue
		}
		for _, v := range g.Versions {
			version := schema.GroupVersion{Group: g.Name, Version: v.Version}
			if v.Version == kind.Version {
				all = slices.Insert(all, 0, version)
			} else {
				all = append(all, version)
			}
		}
	}
	return all
}

// resourceOf returns the name of a kind in requests, in the first version that has it; empty: the cluster does not know it.
func resourceOf(known discovery.DiscoveryInterface, versions []schema.GroupVersion, kind string) (schema.GroupVersionResource, error) {
	for _, version := range versions {
		all, err := known.ServerResourcesForGroupVersion(version.String())
		if err != nil {
			return schema.GroupVersionResource{}, err
		}
		for _, r := range all.APIResources {
			if r.Kind == kind && !strings.Contains(r.Name, "/") {
				return version.WithResource(r.Name), nil
			}
		}
	}
	return schema.GroupVersionResource{}, nil
}
