package ipam

import "plinth.dev/plinth/lb"

// Want says which families a Service asks for: spec.ipFamilies under
// spec.ipFamilyPolicy. SingleStack has a First alone; RequireDualStack a Second
// too; PreferDualStack a Second that is Optional, and then either will do.
type Want struct {
	First, Second lb.Family
	Optional      bool
}

// has reports whether f is among the families asked for.
func (w Want) has(f lb.Family) bool { return f != lb.NoFamily && (f == w.First || f == w.Second) }

// dual reports whether both families are asked for.
func (w Want) dual() bool { return w.Second != lb.NoFamily }
