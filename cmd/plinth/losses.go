package main

import (
	"context"
	"fmt"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/provider/cluster"
)

// judgement is the losses that an edit causes, and whether it would be refused for them.
type judgement struct {
	losses   edit.Losses
	problems inventory.Problems // for which it is refused; none: it is not
	digest   string             // that would let it pass; empty: nothing has to
}

// judge holds an edit against the inventory in force, and against what a cluster says where one
// is asked.
func judge(before, after *inventory.Inventory, asked *preview.Cluster) judgement {
	judged := judgement{losses: edit.LossesOf(after, before)}
	if asked != nil {
		judged.losses = judged.losses.In(preview.Losses(before, after, *asked))
	}
	judged.problems, judged.digest = judged.losses.Refuse(before, edit.Allowance{})
	if after.Safety.Paused {
		judged.problems = append(judged.problems, edit.PausedProblem())
	}
	return judged
}

// now returns the present Services, endpoints and Nodes of a cluster.
func (c clusterFlags) now(ctx context.Context) (*preview.Cluster, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	now, err := cluster.List(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("it cannot be told what would be lost: %w", err)
	}
	return &now, nil
}

// lines returns the losses of Services, and the step that lets the edit pass.
func (j judgement) lines() []string {
	l := j.losses
	out := slices.Concat(lines(l.Unreachable), lines(l.Switched), lines(l.Nodes), lines(l.Pods), lines(l.Taken))
	for _, p := range l.Resting {
		out = append(out, p.String()+"; that is what maintenance does")
	}
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
	lost := converted(j.losses.Unreachable, func(vip edit.LostVIP) map[string]any {
		return map[string]any{"address": vip.Addr.String(), "services": vip.Services, "why": vip.Why}
	})
	switched := converted(j.losses.Switched, func(vip edit.SwitchedVIP) map[string]any {
		return map[string]any{"address": vip.Addr.String(), "services": vip.Services, "from": vip.From, "to": vip.To}
	})
	nodes := converted(j.losses.Nodes, func(n edit.LostNode) map[string]any {
		return map[string]any{"node": n.Node, "machine": n.Machine, "why": n.Why}
	})
	taken := converted(j.losses.Taken, func(a inventory.TakenAddress) map[string]any {
		return map[string]any{"pool": a.Pool, "of": a.Of.String(), "who": a.Who}
	})
	return map[string]any{
		"switched": switched, "nodes": nodes, "pods": cutPodsJSON(j.losses.Pods), "resting": cutPodsJSON(j.losses.Resting), "taken": taken,
		"refused": len(j.problems) > 0, "digest": j.digest, "unreachable": lost,
		"removed": append([]string{}, j.losses.Removed...), "drained": append([]string{}, j.losses.Drained...),
	}
}

func cutPodsJSON(cut []edit.CutPods) []map[string]any {
	return converted(cut, func(p edit.CutPods) map[string]any {
		return map[string]any{"from": p.From, "to": p.To, "pairs": p.Pairs, "why": p.Why}
	})
}
