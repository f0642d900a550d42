package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
)

// inCluster is the word for what is in force in a cluster.
const inCluster = "cluster"

// clusterFlags say which cluster, and where in it.
type clusterFlags struct {
	kubeconfig string
	namespace  string
}

func (c *clusterFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.kubeconfig, "kubeconfig", "", "file that says how to reach the cluster (default: $KUBECONFIG, ~/.kube/config)")
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", metav1.NamespaceSystem, "namespace that Plinth runs in")
}

func (c clusterFlags) client() (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// inForce reads the accepted inventory.
func (c clusterFlags) inForce(ctx context.Context) (*inventory.Inventory, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return acceptedIn(ctx, client, c.namespace)
}

// acceptedIn puts the slices together that hold the accepted inventory.
func acceptedIn(ctx context.Context, client kubernetes.Interface, namespace string) (*inventory.Inventory, error) {
	list, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: source.LabelAccepted})
	if err != nil {
		return nil, fmt.Errorf("read what is in force: %w", err)
	}
	var docs []inventory.Document
	for _, cm := range list.Items {
		if text, ok := cm.Data["inventory.yaml"]; ok {
			docs = append(docs, inventory.Document{Source: "configmap/" + namespace + "/" + cm.Name + "/inventory.yaml", Data: []byte(text)})
		}
	}
	if len(docs) == 0 {
		return nil, errors.New("no inventory is in force in namespace " + namespace)
	}
	inv, problems := inventory.ParseAccepted(docs...)
	return inv, problems.Err()
}
