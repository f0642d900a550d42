package report

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/agent/latest"
	"plinth.dev/plinth/provider/agent/plan"
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

// Tally is the number of routes and sessions, desired and present.
type Tally struct {
	Routes, RoutesWanted, Sessions, SessionsWanted int
	PassedBy                                       int              // sessions that are down, of routers that others stand in for
	CutOff                                         bool             // no router knows this machine's pods any more
	Lacking                                        int              // sessions that are up, and whose routers were not told all pod CIDRs
	Down                                           []lb.DownSession // each session that does not count
}

// Counts returns the counts of the tally as the Node's condition reports them.
func (t Tally) Counts() lb.Counts {
	c := lb.Counts{
		Counted: true, Routes: t.Routes, RoutesWanted: t.RoutesWanted, Sessions: t.Sessions, SessionsWanted: t.SessionsWanted, LacksPodCIDRs: t.Lacking > 0,
	}
	c.NameDown(t.Down)
	return c
}

// Statement is a condition that is not printed yet: its status, its reason, and what its message reports.
type Statement struct {
	Ready  corev1.ConditionStatus
	reason string
	Report lb.Report
}

// Condition is the statement as the Node bears it.
func (s Statement) Condition() plan.Condition {
	return plan.Condition{Ready: s.Ready, Reason: s.reason, Message: s.Report.String()}
}

// Statement judges the counts of the tally.
func (t Tally) Statement() Statement {
	statement := Statement{Ready: corev1.ConditionFalse, Report: lb.Report{Counts: t.Counts()}}
	switch missing := t.SessionsWanted - t.Sessions; {
	case t.Routes != t.RoutesWanted:
		statement.reason = Incomplete
	case t.CutOff:
		statement.reason = CutOff
	case missing == 0:
		statement.Ready, statement.reason = corev1.ConditionTrue, AsPlanned
	case missing == t.PassedBy:
		statement.reason = Degraded
	default:
		statement.reason = SessionsDown
	}
	return statement
}

// Outdated adds that a newer version stored what this agent does not read. All else that
// the agent does it does well, so that it does not become false for that.
func (s Statement) Outdated(unread lb.Unread) Statement {
	s.Report.Unread = unread
	if s.Ready == corev1.ConditionTrue && unread != (lb.Unread{}) {
		s.reason = Outdated
	}
	return s
}

// Waits adds the input that has long been pending: what is in force may be old.
func (s Statement) Waits(what string) Statement {
	s.Ready, s.reason, s.Report.Waiting = corev1.ConditionFalse, Incomplete, what
	return s
}

// sayAlike reports whether what controllers read of two messages is the same.
func sayAlike(c, o plan.Condition) bool {
	a, b := lb.ParseReport(c.Message), lb.ParseReport(o.Message)
	return a.Trial.Equal(b.Trial) && slices.Equal(a.Links, b.Links) && slices.Equal(a.Silent(), b.Silent()) &&
		a.ProxyRefuses == b.ProxyRefuses && a.RulesLost.Gone > 0 == (b.RulesLost.Gone > 0) && a.RulesLost.All() == b.RulesLost.All() && a.NoSessionIsUp() == b.NoSessionIsUp()
}

// rewordEvery is how often at most a condition is written of which only the message changes.
const rewordEvery = 30 * time.Second

// beatEvery is how often a condition is written of which nothing changes, as kubelets do with theirs: who reads it
// learns that the agent is there. The first time comes sooner, at random, so that agents that began together do not
// write together.
const beatEvery = 5 * time.Minute

// Writer keeps the condition on the Node as it should be. It writes in a goroutine
// of its own: while the API server is away nothing else waits for it.
//
// While nothing changes it is written every five minutes. Status and reason are written at once, and so is what controllers read of the message. A change of the message alone,
// which people read, waits until the last such change is half a minute old, so that a session
// whose cause changes with each attempt does not keep all who watch the Node busy.
type Writer struct {
	log         *slog.Logger
	client      kubernetes.Interface
	nodeName    string
	want        latest.Value[plan.Condition]
	now         func() (plan.Node, bool)
	clock       func() time.Time
	rewordEvery time.Duration
	reworded    time.Time // the message alone was changed
	Stuck       func() bool
	last        written
}

// written is the condition that was written last, over which one, and when: until the watch shows it,
// it is not to be written again.
type written struct {
	over, c plan.Condition
	at      time.Time
}

// shownAt returns the condition that a Node bears by now, of which the watch shows seen.
func (l written) shownAt(seen plan.Condition, now time.Time) plan.Condition {
	if l.over == seen && now.Sub(l.at) < writeTimeout {
		return l.c
	}
	return seen
}

// NewWriter returns a writer for a Node, which self tells as it is by now; false: it is not there.
func NewWriter(log *slog.Logger, client kubernetes.Interface, nodeName string, now func() (plan.Node, bool)) *Writer {
	return &Writer{log: log,
		client: client, nodeName: nodeName, want: latest.New[plan.Condition](), now: now, Stuck: func() bool { return false }, clock: time.Now, rewordEvery: rewordEvery,
	}
}

// Set sets the desired condition. It never waits.
func (w *Writer) Set(c plan.Condition) { w.want.Put(c) }

// Run writes the latest desired condition until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	var condition plan.Condition
	var again <-chan time.Time
	beat := time.NewTimer(rand.N(beatEvery))
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			w.beat(ctx, condition)
			beat.Reset(beatEvery)
			continue
		case condition = <-w.want:
		case <-again:
		}
		again = nil
		if wait := w.write(ctx, condition); wait > 0 {
			again = time.After(wait)
		}
	}
}

// write writes one condition unless the Node bears it, and returns how long to wait until it is
// tried again; 0: until the next one is wanted.
func (w *Writer) write(ctx context.Context, condition plan.Condition) time.Duration {
	node, there := w.now()
	if !there {
		return 0 // there is nothing to write to; the next pass sets it again
	}
	now := w.clock()
	shown := w.last.shownAt(node.Condition, now)
	reworded := shown.Ready == condition.Ready && shown.Reason == condition.Reason && sayAlike(shown, condition)
	switch left := w.reworded.Add(w.rewordEvery).Sub(now); {
	case shown == condition:
		return 0
	case reworded && left > 0:
		return left
	}
	if err := w.patch(ctx, shown, condition); err != nil {
		w.log.Warn("cannot write the condition", "type", lb.FabricReady, "err", err)
		return writeRetry
	}
	w.last = written{node.Condition, condition, now}
	if reworded {
		w.reworded = now
	}
	w.log.Info("wrote the condition", "type", lb.FabricReady, "status", condition.Ready, "reason", condition.Reason, "message", condition.Message)
	return 0
}

// beat writes a condition that the Node bears once more, unless the agent is stuck: what its condition says may not be
// so any more.
func (w *Writer) beat(ctx context.Context, c plan.Condition) {
	if n, there := w.now(); !there || w.last.shownAt(n.Condition, w.clock()) != c || w.Stuck() {
		return
	}
	if err := w.patch(ctx, c, c); err != nil {
		w.log.Warn("cannot write the condition again", "type", lb.FabricReady, "err", err)
	}
}

func (w *Writer) patch(ctx context.Context, old, c plan.Condition) error {
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
