package installation

import (
	"context"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/wake"
)

// waitEvery is how often it is looked who leads.
const waitEvery = 10 * time.Second

// Waiting is a controller that waits to lead, with the lease that it waits for.
type Waiting struct {
	Client          kubernetes.Interface
	Namespace, Name string // of the lease
	Program         string // of this process, where it is called otherwise than Plinth's
	Leads           func() bool
	Log             *slog.Logger

	said string
}

// Report logs the holder that a controller waits for, once for each, until it leads or ctx ends. The election itself, client-go's, says
// nothing of that.
func (w *Waiting) Report(ctx context.Context) {
	for !w.Leads() && ctx.Err() == nil {
		w.look(ctx)
		wake.After(ctx, waitEvery)
	}
}

func (w *Waiting) look(ctx context.Context) {
	lease, err := w.Client.CoordinationV1().Leases(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{})
	switch {
	case ctx.Err() != nil, apierrors.IsNotFound(err): // nobody leads
	case apierrors.IsForbidden(err):
		w.say(slog.LevelError, "Waiting to lead: the lease may not be read. Apply the Roles of this version, from deploy/base or the chart: they name the lease", "err", err)
	case err != nil:
		w.say(slog.LevelWarn, "Waiting to lead: the lease cannot be read", "err", err)
	default:
		w.lookAt(lease)
	}
}

func (w *Waiting) lookAt(l *coordinationv1.Lease) {
	own := Installation{Namespace: w.Namespace, signed: w.Program}
	own.ReadLease(l)
	switch {
	case own.parkedFor() != "":
		w.say(slog.LevelError, "Refusing to lead: the installation was moved", "to", own.parkedFor(), "back", moveCommand(own.parkedFor(), w.Namespace))
	case own.Holder == "":
	case own.OtherProgram() != "":
		w.say(slog.LevelError, "Waiting to lead: the cloud controller manager of another program holds the lease. A cluster has one: k3s and RKE2 end theirs with disable-cloud-controller: true",
			"holder", own.Holder, "program", own.OtherProgram())
	default:
		w.say(slog.LevelInfo, "Waiting to lead: another controller does", "holder", own.Holder)
	}
}

// say logs a message unless it is as the last one was.
func (w *Waiting) say(level slog.Level, what string, args ...any) {
	text := what
	for _, a := range args {
		if s, is := a.(string); is {
			text += " " + s
		}
	}
	if text == w.said {
		return
	}
	w.said = text
	w.Log.Log(context.Background(), level, what, append([]any{"namespace", w.Namespace, "lease", w.Name}, args...)...)
}
