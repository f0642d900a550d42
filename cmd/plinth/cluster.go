package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/installation"
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
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "", "namespace that Plinth runs in (default: kube-system, or the one that has an installation)")
}

// config returns the client configuration for the cluster.
func (c clusterFlags) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
}

func (c clusterFlags) client() (kubernetes.Interface, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// inForce reads the accepted inventory. Where it cannot be read as a whole, what can be read of it is taken, and a
// line of the standard error output says so.
func (c clusterFlags) inForce(cmd *cobra.Command) (*inventory.Inventory, error) {
	client, namespace, err := c.installation(cmd.Context())
	if err != nil {
		return nil, err
	}
	inv, err := acceptedIn(cmd.Context(), client, namespace)
	if inv != nil && errors.Is(err, source.ErrUnreadable) {
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning: this is but what can be read of what is in force:", err)
		err = nil
	}
	return inv, err
}

// installation returns a client for the cluster, and the namespace that Plinth runs in.
func (c clusterFlags) installation(ctx context.Context) (client kubernetes.Interface, namespace string, err error) {
	if client, err = c.client(); err != nil {
		return nil, "", err
	}
	namespace, err = c.in(ctx, client)
	return client, namespace, err
}

// in is the namespace that was said, or else the one that has an installation.
func (c clusterFlags) in(ctx context.Context, client kubernetes.Interface) (string, error) {
	if c.namespace != "" {
		return c.namespace, nil
	}
	return installation.Locate(ctx, client, metav1.NamespaceSystem)
}

// acceptedIn reads the accepted inventory of a namespace; that there is none is an error.
func acceptedIn(ctx context.Context, client kubernetes.Interface, namespace string) (*inventory.Inventory, error) {
	inv, err := source.Accepted(ctx, client, namespace)
	if err == nil && inv == nil {
		err = errors.New("no inventory is in force in namespace " + namespace)
	}
	if errors.Is(err, source.ErrUnreadable) {
		err = fmt.Errorf("%w; %s", err, source.Advice(namespace))
	}
	return inv, err
}
