package installation

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/uptime"
)

// lookEvery is how often a guard looks whether it may pass.
const lookEvery = time.Second

// Guard keeps a controller from acting while another namespace has an installation that acts, or that
// has what the cluster runs on. It is asked when the lease of the own namespace is held already: of
// two that begin at the same time at least one sees the other's lease.
type Guard struct {
	Client    kubernetes.Interface
	Namespace string // of this installation
	Lease     string // the name of its lease, and of those of others
	LeaseIn   string // namespace of its lease, which is its own where Plinth is installed as it is shipped
	Log       *slog.Logger
	Events    record.EventRecorder // takes why it waits, as of its lease

	seen map[string]lastSeen // by namespace
}

// lastSeen is a lease as it was seen first since it was renewed, and when, on the clock of package uptime.
type lastSeen struct {
	holder  string
	renewed time.Time
	at      time.Duration
}

// reasonOther is that of the Event which says why a controller waits.
const reasonOther = "OtherInstallation"

// Wait returns nil when this installation may act, and the error of ctx when that ends. It logs why it
// waits, once for each reason, and records it as an Event.
func (g *Guard) Wait(ctx context.Context) error {
	g.seen = map[string]lastSeen{}
	said := ""
	for {
		why := g.look(ctx)
		if why == "" {
			return nil
		}
		if ctx.Err() == nil && why != said {
			said = why
			g.Log.Error("This controller does nothing: " + why)
			lease := &v1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: g.LeaseIn, Name: g.Lease}
			g.Events.Event(lease, v1.EventTypeWarning, reasonOther, "This controller does nothing: "+why)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// look returns why this installation may not act; empty: it may.
func (g *Guard) look(ctx context.Context) string {
	all, err := Find(ctx, g.Client, g.Lease)
	if apierrors.IsForbidden(err) && g.established(ctx) {
		g.Log.Warn("It is not known whether another namespace has an installation: apply the newer ClusterRole of the controller", "err", err)
		return ""
	}
	if err != nil {
		return "it is not known whether another namespace has an installation: " + err.Error()
	}
	now := uptime.Now()
	alive := map[string]bool{}
	for _, each := range all {
		alive[each.Namespace] = each.Namespace != g.LeaseIn && g.alive(each, now)
	}
	return judge(g.Namespace, all, alive)
}

// established reports whether an inventory was accepted in the own namespace, where others cannot be
// looked at: the rights are of an older version, which had no other namespace to look at.
func (g *Guard) established(ctx context.Context) bool {
	cm, err := g.Client.CoreV1().ConfigMaps(g.Namespace).Get(ctx, source.AcceptedName, metav1.GetOptions{})
	if err != nil {
		return false
	}
	var own Installation
	own.readAccepted(cm)
	return own.established()
}

// alive reports whether a lease may be held by somebody who acts. As in the election itself, what
// counts is for how long it was not seen to change: clocks differ.
func (g *Guard) alive(i Installation, now time.Duration) bool {
	if i.Holder == "" || i.parkedFor() != "" {
		return false
	}
	last := g.seen[i.Namespace]
	if last.holder != i.Holder || !last.renewed.Equal(i.Renewed) {
		last = lastSeen{i.Holder, i.Renewed, now}
		g.seen[i.Namespace] = last
	}
	return now-last.at < i.Lasts
}

// judge returns why the installation of a namespace may not act; empty: it may. alive says by
// namespace whose lease may be held by somebody who acts. An installation that has what the cluster
// runs on passes over those that have not: they wait for it.
func judge(own string, all []Installation, alive map[string]bool) string {
	self := Installation{Namespace: own}
	if i := slices.IndexFunc(all, func(i Installation) bool { return i.Namespace == own }); i >= 0 {
		self = all[i]
	}
	if to := cmp.Or(self.MovedTo, self.parkedFor()); to != "" {
		return fmt.Sprintf("this installation was moved to namespace %s; to move it back: %s", to, moveCommand(to, own))
	}
	for _, other := range all {
		switch {
		case other.Namespace == own:
		case alive[other.Namespace] && (other.established() || !self.established()):
			return fmt.Sprintf("%s holds the lease of namespace %s: two controllers must not act on one cluster. %s", other.Holder, other.Namespace, advice(self, other))
		case other.established() && !self.established():
			return fmt.Sprintf("generation %s of an inventory was accepted in namespace %s, and none in %s. %s", other.Generation, other.Namespace, own, advice(self, other))
		}
	}
	return ""
}

// advice is what a person may do about another installation.
func advice(self, other Installation) string {
	if !other.established() || self.established() {
		return fmt.Sprintf("Remove the one in namespace %s or this one", other.Namespace)
	}
	return fmt.Sprintf("Move it: %s; or begin anew once it is removed: kubectl -n %s delete configmap -l %s",
		moveCommand(other.Namespace, self.Namespace), other.Namespace, source.LabelAccepted)
}

func moveCommand(from, to string) string {
	return fmt.Sprintf("kubectl plinth move --namespace %s --to %s", from, to)
}
