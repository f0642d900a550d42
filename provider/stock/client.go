package stock

import (
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// client is a client of the API with other clients of Nodes and Events in it.
type client struct {
	kubernetes.Interface
	nodes  func(typedv1.NodeInterface) typedv1.NodeInterface
	events func(typedv1.EventInterface) typedv1.EventInterface // nil: as they are
}

// CoreV1 returns the client of the core API group.
func (c client) CoreV1() typedv1.CoreV1Interface { return core{c.Interface.CoreV1(), c} }

type core struct {
	typedv1.CoreV1Interface
	client client
}

// Nodes returns the client of Nodes.
func (c core) Nodes() typedv1.NodeInterface { return c.client.nodes(c.CoreV1Interface.Nodes()) }

// Events returns the client of Events.
func (c core) Events(namespace string) typedv1.EventInterface {
	events := c.CoreV1Interface.Events(namespace)
	if c.client.events == nil {
		return events
	}
	return c.client.events(events)
}
