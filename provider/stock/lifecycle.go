package stock

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/nodelifecycle"

	"plinth.dev/plinth/provider/nodeindex"
)

// StartLifecycle starts the stock controller that deletes the Nodes of retired
// machines. It decides on what its cache shows, which may be older than it
// should be: of a Node that is another by now, of an inventory that another
// leader has replaced. So a "no" is given only after a look at the API server,
// and deletes the Node that was seen there and no other.
func (c *Controllers) StartLifecycle(ctx context.Context, start Start) error {
	settings := start.Config.ComponentConfig.NodeLifecycleController
	client := start.client()
	cloud := &verifyingCloud{Interface: c.Cloud, nodes: client.CoreV1().Nodes(), current: c.Current}
	stock, err := nodelifecycle.NewCloudNodeLifecycleController(
		c.Nodes, preconditionClient(client, &cloud.verified), cloud,
		settings.NodeMonitorPeriod.Duration, int(settings.ConcurrentNodeLifecycleSyncs),
	)
	if err != nil {
		return err
	}
	go c.InForce.Once(ctx, func() { stock.Run(ctx, start.Context.ControllerManagerMetrics) })
	return nil
}

// verifyingCloud is a cloud whose "no" is of this moment.
type verifyingCloud struct {
	cloudprovider.Interface
	nodes    typedv1.NodeInterface
	current  func(context.Context) error // an error unless the inventory in force is the one that is stored
	verified sync.Map                    // the Nodes that may be deleted, as they were read, by name
}

// InstancesV2 answers for machines.
func (c *verifyingCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	answers, ok := c.Interface.InstancesV2()
	return verifyingInstances{answers, c}, ok
}

// Instances is not there: its "no" would not be verified.
func (c *verifyingCloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

type verifyingInstances struct {
	cloudprovider.InstancesV2
	cloud *verifyingCloud
}

// InstanceExists is false for a machine that is retired, in an inventory that is
// still in force, and whose Node is still there and not Ready.
func (i verifyingInstances) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	exists, err := i.InstancesV2.InstanceExists(ctx, node)
	if exists || err != nil {
		return exists, err
	}
	return false, i.cloud.verify(ctx, node)
}

// verify reads a Node that is to be deleted, and returns an error if it must not be.
func (c *verifyingCloud) verify(ctx context.Context, node *v1.Node) error {
	if err := c.current(ctx); err != nil {
		return err
	}
	live, err := c.nodes.Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live.UID != node.UID {
		return fmt.Errorf("node %s is another by now", node.Name)
	}
	if nodeindex.State(live).Ready {
		return fmt.Errorf("node %s is Ready by now", node.Name)
	}
	c.verified.Store(node.Name, live)
	return nil
}

// preconditionClient returns a client that deletes a Node only as it was verified.
func preconditionClient(c kubernetes.Interface, verified *sync.Map) kubernetes.Interface {
	return client{Interface: c, nodes: func(n typedv1.NodeInterface) typedv1.NodeInterface { return preconditionNodes{n, verified} }}
}

type preconditionNodes struct {
	typedv1.NodeInterface
	verified *sync.Map
}

// Delete deletes a Node unless it has changed since it was verified.
func (n preconditionNodes) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	verified, ok := n.verified.LoadAndDelete(name)
	if !ok {
		return fmt.Errorf("node %s: it was not verified at the API server that it may be deleted", name)
	}
	node := verified.(*v1.Node)
	options.Preconditions = &metav1.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion}
	return n.NodeInterface.Delete(ctx, name, options)
}
