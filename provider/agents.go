package provider

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/provider/cluster"
	"plinth.dev/plinth/provider/nodeindex"
)

// agents returns the agents of machines as the conditions of their Nodes report them, where the kubelet is Ready and an
// agent has ever reported anything: other machines have no session that an edit could end, or no agent to ask.
func (c *Cloud) agents(ctx context.Context) (map[string]edit.Agent, error) {
	reader, inv := c.cluster.Load(), c.inForce.Get()
	if reader == nil || inv == nil {
		return nil, errNoInformers
	}
	nodes, err := reader.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	stake, err := c.stake(ctx, reader, inv)
	if err != nil {
		return nil, err
	}
	return agentsOf(inv, nodes, stake)
}

// errNoKubelet is no reason to change anything unseen: the machines may go on, and the API server
// have lost sight of them.
var errNoKubelet = errors.New("no machine's kubelet is heard of")

// agentsOf is agents for these Nodes. That none of several is Ready is an error.
func agentsOf(inv *inventory.Inventory, nodes []*v1.Node, at stake) (map[string]edit.Agent, error) {
	all, silent := map[string]edit.Agent{}, 0
	identities := nodeindex.Identities(nodes)
	for i, node := range nodes {
		machine, err := inv.Identify(identities[i])
		if err != nil {
			continue
		}
		switch cond := nodeindex.Condition(node, lb.FabricReady); {
		case cond.Type == "":
		case nodeindex.Condition(node, v1.NodeReady).Status != v1.ConditionTrue:
			silent++
		default:
			all[machine.Name] = edit.Agent{Node: node.Name, Up: cond.Status == v1.ConditionTrue, Says: lb.ParseReport(cond.Message), Alone: at.alone[machine.Name], Routers: routersOf(inv, machine), Endpoints: at.endpoints[node.Name]}
		}
	}
	if len(all) == 0 && silent > 0 {
		return nil, errNoKubelet
	}
	return all, nil
}

// routersOf returns the routers that a machine has sessions with.
func routersOf(inv *inventory.Inventory, m inventory.Machine) (routers []string) {
	for _, s := range inv.Sessions(m) {
		if !slices.Contains(routers, s.Router) {
			routers = append(routers, s.Router)
		}
	}
	return routers
}

// stakeFor is how long it is believed what machines announce and serve: while a trial runs it is asked each second.
const stakeFor = time.Minute

// stake is the VIPs and endpoints that machines could lose by an edit of an inventory, and the time at which they were read.
type stake struct {
	of        *inventory.Inventory
	at        time.Time
	alone     map[string]bool // by machine: it announces some VIP that nobody else does
	endpoints map[string]int  // by Node: how many endpoints of Services are ready there
}

func (c *Cloud) stake(ctx context.Context, r *cluster.Reader, inv *inventory.Inventory) (stake, error) {
	if last := c.atStake; last.of == inv && time.Since(last.at) < stakeFor {
		return last, nil
	}
	now, err := r.Read(ctx)
	if err != nil {
		return stake{}, err
	}
	found := stake{of: inv, at: time.Now(), alone: map[string]bool{}, endpoints: now.Endpoints}
	for _, vip := range preview.Of(inv, now, preview.Failures{}).VIPs {
		if len(vip.By) > 0 && vip.By[0].OnLink() {
			continue // a session is no part of it
		}
		if only, ok := vip.OnlyMachine(); ok {
			found.alone[only] = true
		}
	}
	c.atStake = found
	return found, nil
}
