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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/uptime"
	"plinth.dev/plinth/wake"
)

// lookEvery is how often a guard looks whether it may pass.
const lookEvery = time.Second

// Guard keeps a controller from acting while another namespace has an installation that acts, or that
// the cluster runs on, and while another controller, which leads by a lease of another name, acts for the same installation.
// It is asked once the lease of the own namespace is held: of two that begin at the same time at least one sees the
// other's lease.
type Guard struct {
	Client    kubernetes.Interface
	Namespace string // of this installation
	Lease     string // the name of the lease that this controller leads by
	LeaseIn   string // namespace of that lease, which is its own where Plinth is installed as it is shipped; empty: it was not elected
	Program   string // of this process, where it is called otherwise than Plinth's
	Log       *slog.Logger
	Events    record.EventRecorder // takes why it waits, as of its lease

	seen   map[types.NamespacedName]lastSeen // by lease
	warned bool                              // that others may not be looked for
}

// lastSeen is a lease as it was seen first since it was renewed, and when, on the clock of package uptime.
type lastSeen struct {
	holder  string
	renewed time.Time
	at      time.Duration
}

// reasonOther is the reason of the Event that says for what a controller waits.
const reasonOther = "OtherInstallation"

// Wait returns nil when this installation may act, and the error of ctx when that ends. It logs why it
// waits, once for each reason, and records it as an Event.
func (g *Guard) Wait(ctx context.Context) error {
	g.seen = map[types.NamespacedName]lastSeen{}
	said := ""
	for {
		why := g.look(ctx)
		if why == "" {
			return nil
		}
		if ctx.Err() == nil && why != said {
			said = why
			g.Log.Error("refusing to act: " + why)
			lease := &v1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: g.LeaseIn, Name: g.Lease}
			g.Events.Event(lease, v1.EventTypeWarning, reasonOther, "This controller does nothing: "+why)
		}
		if !wake.After(ctx, lookEvery) {
			return ctx.Err()
		}
	}
}

// look returns the reason for which this controller may not act; empty: it may.
func (g *Guard) look(ctx context.Context) string {
	if why := g.others(ctx); why != "" || g.LeaseIn == "" {
		return why
	}
	waits, err := succession{g.Client, g.Namespace, g.Lease, g.Program, g.heldBy}.step(ctx)
	switch {
	case err != nil:
		return "it is not known whether another one acts for this installation: " + err.Error()
	case waits.holder != "":
		return fmt.Sprintf("%s holds lease %s, which the installation of namespace %s runs on, and this controller leads by lease %s: two must not act. This one does once that one has ended",
			waits.holder, waits.lease, g.Namespace, g.Lease)
	}
	return ""
}

// heldBy returns the holder of a lease of this installation, if it may act or lets nobody act; empty: there is none. A program
// that is neither Plinth's, nor of this one's name, nor signed the installation, has not acted for it.
func (g *Guard) heldBy(ctx context.Context, lease, signed string) (string, error) {
	l, err := leaseNamed(ctx, g.Client, g.LeaseIn, lease)
	if err != nil || l == nil {
		return "", err
	}
	installation := Installation{Namespace: g.LeaseIn, signed: signed}
	installation.ReadLease(l)
	if other := installation.OtherProgram(); other != "" && other != g.Program {
		return "", nil
	}
	if installation.parkedFor() != "" || g.alive(installation, uptime.Now()) {
		return installation.Holder, nil
	}
	return "", nil
}

// others returns the reason for which this installation may not act beside those of other namespaces; empty: it may.
func (g *Guard) others(ctx context.Context) string {
	all, err := Find(ctx, g.Client, g.Lease)
	if apierrors.IsForbidden(err) && g.established(ctx) {
		if !g.warned {
			g.Log.Warn("cannot tell whether another namespace has an installation: apply the newer ClusterRole of the controller", "err", err)
		}
		g.warned = true
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
	cm, err := acceptedOf(ctx, g.Client, g.Namespace)
	if err != nil || cm == nil {
		return false
	}
	var own Installation
	own.readAccepted(cm)
	return own.established()
}

// alive reports whether a lease may be held by somebody who acts. As in the election itself, what
// counts is for how long it was not seen to change: clocks differ.
func (g *Guard) alive(installation Installation, now time.Duration) bool {
	if installation.Holder == "" || installation.parkedFor() != "" {
		return false
	}
	lease := types.NamespacedName{Namespace: installation.Namespace, Name: installation.Lease}
	last := g.seen[lease]
	if last.holder != installation.Holder || !last.renewed.Equal(installation.Renewed) {
		last = lastSeen{installation.Holder, installation.Renewed, now}
		g.seen[lease] = last
	}
	return now-last.at < installation.Lasts
}

// WhyIdle returns the reason for which the installation of a namespace may not act at a time, as its [Guard] has it; empty: it may. Whether others
// are alive it tells by their clocks.
func WhyIdle(own string, all []Installation, now time.Time) string {
	alive := map[string]bool{}
	for _, i := range all {
		alive[i.Namespace] = i.Holder != "" && i.parkedFor() == "" && now.Sub(i.Renewed) < i.Lasts
	}
	return judge(own, all, alive)
}

// judge returns the reason for which the installation of a namespace may not act; empty: it may. alive says by
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
			return fmt.Sprintf("%s holds the lease of namespace %s: two controllers must not act on one cluster. %s", holderOf(other), other.Namespace, advice(self, other))
		case other.established() && !self.established():
			return fmt.Sprintf("generation %s of an inventory was accepted in namespace %s, and none in %s. %s", other.Generation, other.Namespace, own, advice(self, other))
		}
	}
	return ""
}

// holderOf returns the holder of a lease, with its program where that is none of Plinth's.
func holderOf(i Installation) string {
	if program := i.OtherProgram(); program != "" {
		return fmt.Sprintf("%s (%s)", i.Holder, program)
	}
	return i.Holder
}

// advice returns the steps by which a person may resolve that there is another installation.
func advice(self, other Installation) string {
	if other.OtherProgram() != "" && !other.established() {
		return "End the cloud controller manager there (k3s and RKE2: disable-cloud-controller: true), or give this one a lease and a port of its own"
	}
	if !other.established() || self.established() {
		return fmt.Sprintf("Remove the one in namespace %s or this one", other.Namespace)
	}
	return fmt.Sprintf("Move it: %s; or begin anew once it is removed: kubectl -n %s delete configmap -l %s",
		moveCommand(other.Namespace, self.Namespace), other.Namespace, source.LabelAccepted)
}

func moveCommand(from, to string) string {
	return fmt.Sprintf("kubectl plinth move --namespace %s --to %s", from, to)
}
