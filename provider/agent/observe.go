package agent

import (
	"context"
	"time"

	"plinth.dev/plinth/inventory"
)

// observe brings the inputs up to date and reports whether a plan can be made: the
// API server has told all, or what the last process knew is at hand, and
// kube-proxy has been asked. While something is missing, what is in force is planned
// anew: endpoints stay as they were, but the machine is drained, follows kube-proxy's
// health, and has its routes. Where the inventory has this machine no more, it answers for
// nothing on links: the others count without it. Where it is in doubt which machine this is, it goes on as the one that it was, with
// the endpoints of today.
func (a *Agent) observe(ctx context.Context) (inventory.Machine, bool) {
	a.sources.Adjust(ctx)
	in, missing := a.sources.Snapshot()
	inDoubt := false
	if missing == "" {
		_, err := in.Machine()
		missing, inDoubt = noMachine(err), err != nil
		a.known.unlisted = in.IsUnlisted(err)
	}
	if begins := !a.known.live && !a.planned.once && a.known.restored == nil; missing == "" && begins {
		missing = noMachine(in.Begin())
	}
	switch {
	case missing == "":
		a.known.live, a.known.restored, a.inputs = true, nil, in
	case a.known.restored != nil && !a.givesTime():
		a.inputs = *a.known.restored
	case !a.planned.once:
		return inventory.Machine{}, a.wait(missing)
	}
	if inDoubt {
		a.inputs = a.inputs.Serving(in)
	}
	a.answer(missing, time.Now())
	a.admit(time.Now())
	if _, asked := a.kubeProxy.health.State(); !asked {
		return inventory.Machine{}, a.wait("kube-proxy's health")
	}
	machine, err := a.inputs.Machine()
	if err != nil {
		return inventory.Machine{}, a.wait(noMachine(err))
	}
	a.rotate(machine)
	if a.wait(missing); missing == "" && a.inputs.Trial == nil { // a process that follows begins with what is in force
		kept := a.inputs
		kept.Passwords = a.routers.rotation.kept(kept.Passwords)
		a.disk.saver.Save(kept)
	}
	return machine, true
}

// rotate decides which passwords sessions are planned with.
func (a *Agent) rotate(m inventory.Machine) {
	begins := a.routers.rotation.version == 0
	next := a.routers.rotation.observe(a.inputs, m, a.routers.sessions, time.Now())
	if begins {
		a.routers.rotation.seed(a.sources.RestoredPasswords())
	}
	a.inputs.Version.Rotation = a.routers.rotation.version
	a.schedule.wakeIn(next)
}

// givesTime reports whether what was known before a boot of the machine does not count
// yet: much may have become of its pods and VIPs, and the API server is asked first.
func (a *Agent) givesTime() bool {
	left := time.Until(a.grace.until)
	a.schedule.wakeIn(left)
	return left > 0
}

func noMachine(err error) string {
	if err == nil {
		return ""
	}
	return "a machine of the inventory for this Node: " + err.Error()
}

// wait sets the name of what is pending, or none; announcements stay as they are meanwhile. It returns false.
func (a *Agent) wait(what string) bool {
	if what != a.waiting.what {
		a.waiting.since = time.Now()
		if what != "" {
			a.o.Log.Info("waiting", "for", what)
		}
	}
	a.waiting.what = what
	return false
}
