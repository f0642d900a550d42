package provider

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/provider/cluster"
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
	alone, err := c.alone(ctx, r, inv)
	if err != nil {
		return nil, err
	}
	return agentsOf(inv, nodes, alone)
}

// errNoKubelet is no reason to change anything unseen: the machines may go on, and the API server
// have lost sight of them.
var errNoKubelet = errors.New("no machine's kubelet is heard of")

// agentsOf is agents for these Nodes. That none of several is Ready is an error.
func agentsOf(inv *inventory.Inventory, nodes []*v1.Node, alone map[string]bool) (map[string]source.Agent, error) {
	all, silent := map[string]source.Agent{}, 0
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
			switch {
			case cond.Type != lb.FabricReady:
			case !ready:
				silent++
			default:
				all[m.Name] = source.Agent{Node: n.Name, Up: cond.Status == v1.ConditionTrue, Says: cond.Message, Alone: alone[m.Name]}
			}
		}
	}
	if len(all) == 0 && silent > 0 {
		return nil, errNoKubelet
	}
	return all, nil
}

// aloneFor is how long it is believed who announces a VIP alone: while a trial runs it is asked each
// second.
const aloneFor = time.Minute

// alone returns the machines that announce some VIP that nobody else does.
func (c *Cloud) alone(ctx context.Context, r *cluster.Reader, inv *inventory.Inventory) (map[string]bool, error) {
	if last := c.announceAlone; last.of == inv && time.Since(last.at) < aloneFor {
		return last.machines, nil
	}
	now, err := r.Read(ctx)
	if err != nil {
		return nil, err
	}
	found := aloneIn{of: inv, at: time.Now(), machines: map[string]bool{}}
	for _, vip := range preview.Of(inv, now, preview.Failures{}).VIPs {
		first := ""
		for i, by := range vip.By {
			if by.OnLink() {
				break // a session is no part of it
			}
			if i == 0 {
				first = by.Machine
			} else if by.Machine != first {
				first = ""
				break
			}
		}
		if first != "" {
			found.machines[first] = true
		}
	}
	c.announceAlone = found
	return found.machines, nil
}

// aloneIn is who announces a VIP alone by an inventory, and when it was asked.
type aloneIn struct {
	of       *inventory.Inventory
	at       time.Time
	machines map[string]bool
}
