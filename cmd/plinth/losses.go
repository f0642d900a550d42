package main

import (
	"context"
	"fmt"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/provider/cluster"
)

// judgement is what an edit takes away, and whether it would be refused for it.
type judgement struct {
	losses   inventory.Losses
	problems inventory.Problems // for which it is refused; none: it is not
	digest   string             // that would let it pass; empty: nothing has to
}

// judge holds an edit against the inventory in force, and against what a cluster says where one
// is asked.
func judge(before, after *inventory.Inventory, asked *preview.Cluster) judgement {
	j := judgement{losses: inventory.LossesOf(after, before)}
	if asked != nil {
		j.losses = j.losses.WithVIPs(preview.VIPLosses(before, after, *asked))
	}
	j.problems, j.digest = j.losses.Refuse(before, inventory.Allowance{})
	if after.Safety.Paused {
		j.problems = append(j.problems, inventory.PausedProblem())
	}
	return j
}

// now is what a cluster says of Services, endpoints and Nodes.
func (c clusterFlags) now(ctx context.Context) (*preview.Cluster, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	now, err := cluster.List(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("it cannot be told which VIPs would be lost: %w", err)
	}
	return &now, nil
}

// lines tell what Services lose, and what lets the edit pass.
func (j judgement) lines() []string {
	out := append(lines(j.losses.Unreachable), lines(j.losses.Switched)...)
	for _, p := range j.problems {
		out = append(out, fmt.Sprintf("it is refused: it %s (%s)", p.Message, p.Code))
	}
	if j.digest != "" {
		out = append(out, fmt.Sprintf("if it is meant: plinth allow %s", j.digest))
	}
	return out
}

// json is the judgement as scripts read it.
func (j judgement) json() map[string]any {
	lost := []map[string]any{}
	for _, vip := range j.losses.Unreachable {
		lost = append(lost, map[string]any{"address": vip.Addr.String(), "services": vip.Services, "why": vip.Why})
	}
	switched := []map[string]any{}
	for _, vip := range j.losses.Switched {
		switched = append(switched, map[string]any{"address": vip.Addr.String(), "services": vip.Services, "from": vip.From, "to": vip.To})
	}
	return map[string]any{
		"switched": switched,
		"refused":  len(j.problems) > 0, "digest": j.digest, "unreachable": lost,
		"removed": append([]string{}, j.losses.Removed...), "drained": append([]string{}, j.losses.Drained...),
	}
}
