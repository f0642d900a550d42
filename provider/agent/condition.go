package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
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
	PassedBy                                       int      // sessions that are down, of routers that others stand in for
	CutOff                                         bool     // no router knows this machine's pods any more
	Lacking                                        int      // sessions that are up, and whose routers were not told all pod CIDRs
	Causes                                         []string // of each session that does not count, with its router
}

func (t tally) String() string {
	s := fmt.Sprintf("routes %d/%d, sessions %d/%d", t.Routes, t.RoutesWanted, t.Sessions, t.SessionsWanted)
	if t.Lacking > 0 {
		s += " with all pod CIDRs" // see lb.NoSessionIsUp
	}
	return s
}

// A condition names so many causes, in so many bytes: a Node is read by everybody.
const (
	maxCauses    = 512
	causesToName = 8
)

// causes lists the causes, sorted and bounded.
func (t tally) causes() string {
	if len(t.Causes) == 0 {
		return ""
	}
	all, text := slices.Sorted(slices.Values(t.Causes)), ": "
	for i, cause := range all {
		if i > 0 {
			text += ", "
		}
		if i == causesToName || len(text)+len(cause) > maxCauses {
			return text + fmt.Sprintf("and %d more", len(all)-i)
		}
		text += cause
	}
	return text
}

func (t tally) condition() condition {
	c := condition{Ready: corev1.ConditionFalse, Message: t.String() + t.causes()}
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

// trial is what the message says of sessions on trial, for which the controller waits.
func (c condition) trial() string {
	if r, ok := lb.TrialReportIn(c.Message); ok {
		return r.String()
	}
	return ""
}

// lacksRules reports whether the message says that kube-proxy's rules are gone, for some VIPs or for all.
func (c condition) lacksRules() (some, all bool) {
	gone, of := lb.RulesLostIn(c.Message)
	return gone > 0, gone > 0 && gone == of
}

// saysAlike reports whether what controllers read of the message is the same.
func (c condition) saysAlike(o condition) bool {
	some1, all1 := c.lacksRules()
	some2, all2 := o.lacksRules()
	return c.trial() == o.trial() && some1 == some2 && all1 == all2 && slices.Equal(lb.LinkProblemsIn(c.Message), lb.LinkProblemsIn(o.Message))
}

// rewordEvery is how often at most a condition is written of which only the message changes.
const rewordEvery = 30 * time.Second

// beatEvery is how often a condition is written of which nothing changes, as kubelets do with theirs: who reads it
// learns that the agent is there. The first time comes sooner, at random, so that agents that began together do not
// write together.
const beatEvery = 5 * time.Minute

// writer keeps the condition on the Node as it should be. It writes in a goroutine
// of its own: while the API server is away nothing else waits for it.
//
// While nothing changes it is written every five minutes. Status and reason are written at once, and so is what is said of a trial: controllers go by them. A change of the message alone,
// which people read, waits until the last such change is half a minute old, so that a session
// whose cause changes with each attempt does not keep all who watch the Node busy.
type writer struct {
	client      kubernetes.Interface
	nodeName    string
	want        newest[condition]
	now         func() (node, bool)
	clock       func() time.Time
	rewordEvery time.Duration
	reworded    time.Time // the message alone was changed
	stuck       func() bool
	last        written
}

// written is what was written last, over what, and when: until the watch shows it,
// it is not to be written again.
type written struct {
	over, c condition
	at      time.Time
}

// shownAt is what a Node bears by now that was seen to bear a condition.
func (l written) shownAt(seen condition, now time.Time) condition {
	if l.over == seen && now.Sub(l.at) < writeTimeout {
		return l.c
	}
	return seen
}

func newWriter(client kubernetes.Interface, nodeName string, now func() (node, bool)) *writer {
	return &writer{
		client: client, nodeName: nodeName, want: newNewest[condition](), now: now, stuck: func() bool { return false }, clock: time.Now, rewordEvery: rewordEvery,
	}
}

// set says what the condition should be. It never waits.
func (w *writer) set(c condition) { w.want.put(c) }

// run writes what is wanted, the newest, until ctx ends.
func (w *writer) run(ctx context.Context) {
	var c condition
	var again <-chan time.Time
	beat := time.NewTimer(rand.N(beatEvery))
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			w.beat(ctx, c)
			beat.Reset(beatEvery)
			continue
		case c = <-w.want:
		case <-again:
		}
		again = nil
		if wait := w.write(ctx, c); wait > 0 {
			again = time.After(wait)
		}
	}
}

// write writes one condition unless the Node bears it, and returns how long to wait until it is
// tried again; 0: until the next one is wanted.
func (w *writer) write(ctx context.Context, c condition) time.Duration {
	n, there := w.now()
	if !there {
		return 0 // there is nothing to write to; the next pass sets it again
	}
	now := w.clock()
	shown := w.last.shownAt(n.Condition, now)
	reworded := shown.Ready == c.Ready && shown.Reason == c.Reason && shown.saysAlike(c)
	switch left := w.reworded.Add(w.rewordEvery).Sub(now); {
	case shown == c:
		return 0
	case reworded && left > 0:
		return left
	}
	if err := w.patch(ctx, shown, c); err != nil {
		slog.Warn("the condition could not be written", "type", lb.FabricReady, "err", err)
		return writeRetry
	}
	w.last = written{n.Condition, c, now}
	if reworded {
		w.reworded = now
	}
	slog.Info("wrote the condition", "type", lb.FabricReady, "status", c.Ready, "reason", c.Reason, "message", c.Message)
	return 0
}

// beat writes a condition that the Node bears once more, unless the agent is stuck: what its condition says may not be
// so any more.
func (w *writer) beat(ctx context.Context, c condition) {
	if n, there := w.now(); !there || w.last.shownAt(n.Condition, w.clock()) != c || w.stuck() {
		return
	}
	if err := w.patch(ctx, c, c); err != nil {
		slog.Warn("the condition could not be written again", "type", lb.FabricReady, "err", err)
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
