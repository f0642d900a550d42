package provider

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
)

// startLifecycleController starts the stock controller that deletes the Nodes of
// retired machines. It decides on what its cache shows, which may be older than
// it should be: of a Node that is another by now, of an inventory that another
// leader has replaced. So a "no" is given only after a look at the API server,
// and deletes the Node that was seen there and no other.
func startLifecycleController(ctx context.Context, c *Cloud, s start) error {
	settings := s.config.ComponentConfig.NodeLifecycleController
	client := s.config.ClientBuilder.ClientOrDie(s.client)
	seen := &sync.Map{}
	stock, err := nodelifecycle.NewCloudNodeLifecycleController(
		c.informers.Core().V1().Nodes(),
		carefulClient{client, seen},
		carefulCloud{c, client.CoreV1().Nodes(), seen},
		settings.NodeMonitorPeriod.Duration,
		int(settings.ConcurrentNodeLifecycleSyncs),
	)
	if err != nil {
		return err
	}
	go c.inForce.Once(ctx, func() { stock.Run(ctx, s.context.ControllerManagerMetrics) })
	return nil
}

// carefulCloud is a Cloud whose "no" is of this moment.
type carefulCloud struct {
	*Cloud
	client typedv1.NodeInterface
	seen   *sync.Map // the Nodes that are to be deleted, as they were seen, by name
}

// InstancesV2 answers for machines.
func (c carefulCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return carefulInstances{instances{c.Cloud}, c}, true
}

type carefulInstances struct {
	instances
	careful carefulCloud
}

// InstanceExists is false for a machine that is retired, in an inventory that is
// still in force, and whose Node is still there and not Ready.
func (i carefulInstances) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	exists, err := i.instances.InstanceExists(ctx, node)
	if exists || err != nil {
		return exists, err
	}
	return false, i.careful.confirm(ctx, node)
}

func (c carefulCloud) confirm(ctx context.Context, node *v1.Node) error {
	if err := c.keeper.Current(ctx); err != nil {
		return err
	}
	live, err := c.client.Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live.UID != node.UID {
		return fmt.Errorf("node %s is another by now", node.Name)
	}
	if ready(live) {
		return fmt.Errorf("node %s is Ready by now", node.Name)
	}
	c.seen.Store(node.Name, live)
	return nil
}

func ready(node *v1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// carefulClient deletes a Node only as it was when it was last seen.
type carefulClient struct {
	kubernetes.Interface
	seen *sync.Map
}

// CoreV1 returns the client of the core API group.
func (c carefulClient) CoreV1() typedv1.CoreV1Interface {
	return carefulCore{c.Interface.CoreV1(), c.seen}
}

type carefulCore struct {
	typedv1.CoreV1Interface
	seen *sync.Map
}

// Nodes returns the client of Nodes.
func (c carefulCore) Nodes() typedv1.NodeInterface {
	return carefulNodes{c.CoreV1Interface.Nodes(), c.seen}
}

type carefulNodes struct {
	typedv1.NodeInterface
	seen *sync.Map
}

// Delete deletes a Node unless it has changed since it was looked at.
func (n carefulNodes) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	seen, ok := n.seen.LoadAndDelete(name)
	if !ok {
		return fmt.Errorf("nobody has looked whether node %s may go", name)
	}
	node := seen.(*v1.Node)
	options.Preconditions = &metav1.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion}
	return n.NodeInterface.Delete(ctx, name, options)
}
