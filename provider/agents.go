package provider

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/nodeindex"
)

// agents returns what machines' Nodes say of their agents, where the kubelet is Ready and an agent
// has ever said anything: others have no session that an edit could end, or nobody to ask.
func (c *Cloud) agents(ctx context.Context) (map[string]source.Agent, error) {
	r, inv := c.cluster.Load(), c.inForce.Get()
	if r == nil || inv == nil {
		return nil, errNoInformers
	}
	nodes, err := r.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]source.Agent{}
	for _, n := range nodes {
		m, err := inv.Identify(nodeindex.Identity(n))
		if err != nil {
			continue
		}
		ready := false
		for _, cond := range n.Status.Conditions {
			ready = ready || cond.Type == v1.NodeReady && cond.Status == v1.ConditionTrue
		}
		for _, cond := range n.Status.Conditions {
			if ready && cond.Type == lb.FabricReady {
				all[m.Name] = source.Agent{Node: n.Name, Up: cond.Status == v1.ConditionTrue, Says: cond.Message}
			}
		}
	}
	return all, nil
}
