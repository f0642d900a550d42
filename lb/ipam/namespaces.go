package ipam

import (
	"time"

	"plinth.dev/plinth/lb"
)

// SetNamespace notes that there is a Namespace with these labels. It reports whether any pool is
// for its Services that was not before, or is no more.
func (l *Ledger) SetNamespace(name string, labels map[string]string) (changed bool) {
	for _, p := range l.pools {
		changed = changed || p.AllowsNamespace(name, labels) != p.AllowsNamespace(name, l.namespaces[name])
	}
	l.namespaces[name] = labels
	return changed
}

// HasNamespace reports whether the labels of a Namespace are known.
func (l *Ledger) HasNamespace(name string) bool {
	_, known := l.namespaces[name]
	return known
}

// ObserveNamespace notes that there is a Namespace with these labels, which must not be changed
// any more. Where other pools are for its Services now, those that are pending are offered what
// they may have, and are told anew what they may not. What is held stays held: changed says that
// some of it may be such as would not be given now.
func (s *State) ObserveNamespace(name string, labels map[string]string, now time.Time) (changed bool, e Effects) {
	if changed = s.ledger.SetNamespace(name, labels); changed {
		s.offer(now, func(k lb.ServiceKey, _ *pending) bool { return k.Namespace == name }, func() bool { return false })
	}
	return changed, s.out.take()
}

// ForgetNamespace notes that a Namespace is gone, and with it all Services of it.
func (s *State) ForgetNamespace(name string) { delete(s.ledger.namespaces, name) }
