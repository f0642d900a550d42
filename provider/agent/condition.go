package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/lb"
)

// Reasons of the condition. The route controller goes by them: it is what keeps pods
// away from a Node that has no network yet.
const (
	AsPlanned    = "AsPlanned"
	Degraded     = lb.FabricDegraded
	SessionsDown = lb.FabricSessionsDown
	CutOff       = lb.FabricCutOff
	Incomplete   = "Incomplete"
	Outdated     = lb.FabricOutdated
)

const (
	writeTimeout = 10 * time.Second
	writeRetry   = 2 * time.Second
)

// tally is how much of what is wanted there is.
type tally struct {
	Routes, RoutesWanted, Sessions, SessionsWanted int
	PassedBy                                       int  // sessions that are down, of routers that others stand in for
	CutOff                                         bool // no router knows this machine's pods any more
}

func (t tally) String() string {
	return fmt.Sprintf("routes %d/%d, sessions %d/%d", t.Routes, t.RoutesWanted, t.Sessions, t.SessionsWanted)
}

func (t tally) condition() condition {
	c := condition{Ready: corev1.ConditionFalse, Message: t.String()}
	switch missing := t.SessionsWanted - t.Sessions; {
	case t.Routes != t.RoutesWanted:
		c.Reason = Incomplete
	case t.CutOff:
		c.Reason = CutOff
	case missing == 0:
		c.Ready, c.Reason = corev1.ConditionTrue, AsPlanned
	case missing == t.PassedBy:
		c.Reason = Degraded
	default:
		c.Reason = SessionsDown
	}
	return c
}

// outdated adds that a newer version stored what this agent does not read. All else that
// the agent does it does well, so that it does not become false for that.
func (c condition) outdated(unread []string) condition {
	if len(unread) == 0 {
		return c
	}
	c.Message += "; " + strings.Join(unread, "; ")
	if c.Ready == corev1.ConditionTrue {
		c.Reason = Outdated
	}
	return c
}

// writer keeps the condition on the Node as it should be. It writes in a goroutine
// of its own: while the API server is away nothing else waits for it.
type writer struct {
	client   kubernetes.Interface
	nodeName string
	want     newest[condition]
	now      func() (node, bool)
	last     written
}

// written is what was written last, over what, and when: until the watch shows it,
// it is not to be written again.
type written struct {
	over, c condition
	at      time.Time
}

func (l written) answers(now, c condition) bool {
	return l.c == c && l.over == now && time.Since(l.at) < writeTimeout
}

func newWriter(client kubernetes.Interface, nodeName string, now func() (node, bool)) *writer {
	return &writer{client: client, nodeName: nodeName, want: newNewest[condition](), now: now}
}

// set says what the condition should be. It never waits.
func (w *writer) set(c condition) { w.want.put(c) }

func (w *writer) run(ctx context.Context) {
	w.want.each(ctx, func(c condition) { w.write(ctx, c) })
}

// write writes one condition unless the Node bears it, and tries again until a
// newer one is wanted.
func (w *writer) write(ctx context.Context, c condition) {
	for ctx.Err() == nil && len(w.want) == 0 {
		n, there := w.now()
		if !there || n.Condition == c || w.last.answers(n.Condition, c) {
			return // there is nothing to write to; the next pass sets it again
		}
		err := w.patch(ctx, n.Condition, c)
		if err == nil {
			w.last = written{n.Condition, c, time.Now()}
			slog.Info("wrote the condition", "type", lb.FabricReady, "status", c.Ready, "reason", c.Reason, "message", c.Message)
			return
		}
		slog.Warn("the condition could not be written", "type", lb.FabricReady, "err", err)
		pause(ctx, writeRetry)
	}
}

func (w *writer) patch(ctx context.Context, old, c condition) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	now := metav1.Now()
	entry := map[string]any{"type": lb.FabricReady, "status": c.Ready, "reason": c.Reason, "message": c.Message, "lastHeartbeatTime": now}
	if old.Ready != c.Ready {
		entry["lastTransitionTime"] = now
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{entry}}})
	if err != nil {
		return err
	}
	_, err = w.client.CoreV1().Nodes().Patch(ctx, w.nodeName, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}
