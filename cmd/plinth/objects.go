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
	"k8s.io/client-go/rest"
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
	server, err := apiServerOf(config)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, kind := range kinds {
		resource, err := server.resource(kind)
		if err != nil {
			return nil, err
		}
		if resource.Empty() {
			continue
		}
		list, err := server.client.Resource(resource).Namespace(kind.Namespace).List(ctx, metav1.ListOptions{})
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

// apiServer is an API server, with the kinds of objects that it serves.
type apiServer struct {
	known  discovery.DiscoveryInterface
	client dynamic.Interface
	groups *metav1.APIGroupList
}

func apiServerOf(config *rest.Config) (s apiServer, err error) {
	if s.known, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return s, err
	}
	if s.client, err = dynamic.NewForConfig(config); err != nil {
		return s, err
	}
	s.groups, err = s.known.ServerGroups()
	return s, err
}

// versions are those that the server has of the group of a kind: the kind's own first, then as the server prefers them. An
// older release of the other program serves older ones.
func (s apiServer) versions(kind importer.Kind) (all []schema.GroupVersion) {
	for _, g := range s.groups.Groups {
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

// resource returns the name of a kind in requests, in the first version that has it; empty: the server does not know it.
func (s apiServer) resource(kind importer.Kind) (schema.GroupVersionResource, error) {
	for _, version := range s.versions(kind) {
		all, err := s.known.ServerResourcesForGroupVersion(version.String())
		if err != nil {
			return schema.GroupVersionResource{}, err
		}
		for _, r := range all.APIResources {
			if r.Kind == kind.Kind && !strings.Contains(r.Name, "/") {
				return version.WithResource(r.Name), nil
			}
		}
	}
	return schema.GroupVersionResource{}, nil
}
