package watch

import (
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/offers"
	"plinth.dev/plinth/provider/agent/plan"
)

// unread is the part of the API server's objects that this agent does not read, since a newer version
// stored it. What was known of it before holds.
type unread struct {
	inventory error             // nil: it is read
	claims    map[string]string // of IPAddresses: why, by name
}

// claim notes an IPAddress as it is now; nil: it is gone.
func (u *unread) claim(name string, now *offers.Claim) {
	if now == nil || now.Unread == "" {
		delete(u.claims, name)
		return
	}
	if u.claims == nil {
		u.claims = map[string]string{}
	}
	u.claims[name] = now.Unread
}

// report returns what is unread as the Node's condition reports it; zero: all is read.
func (u *unread) report() (known lb.Unread) {
	if u.inventory != nil {
		known.Inventory = u.inventory.Error()
	}
	if known.Claims = len(u.claims); known.Claims > 0 {
		known.Claim = u.claims[slices.Min(slices.Collect(maps.Keys(u.claims)))]
	}
	return known
}

// Unread returns the inventory and the claims that the API server has and this agent does not read at the moment.
func (s *Sources) Unread() lb.Unread {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unread.report()
}

// readClaim is [offers.ClaimOf] for objects of a format that this agent reads. Of another one it
// returns the claim that was known before: to this process, or to the one before it. The lock is held.
func (s *Sources) readClaim(obj any) offers.Claim {
	ip := obj.(*networkingv1.IPAddress)
	err := inventory.CheckFormat("ipaddress "+ip.Name, ip.Annotations, lb.ClaimFormat)
	if err == nil {
		return offers.ClaimOf(obj)
	}
	c, known := s.caches.claims.items[ip.Name]
	if !known {
		c = s.restored.claims[ip.Name]
	}
	c.Unread = err.Error()
	return c
}

// restored are the inputs that the process before this one knew. They are never changed.
type restored struct {
	plan.Inputs
	claims map[string]offers.Claim // by the name of the IPAddress
}

// Restore lets the inputs of the process before this one count for objects that the API server has not told of yet. It is called before
// Start.
func (s *Sources) Restore(in plan.Inputs) {
	s.restored = restoredOf(in)
	s.depart(in.Taken)
}

// RestoredPasswords are the passwords that the process before this one knew; nil: there was none.
func (s *Sources) RestoredPasswords() map[inventory.SecretKey]bgp.Password {
	if s.restored.Inventory == nil {
		return nil
	}
	return s.restored.Passwords
}

// restoredOf indexes the claims of inputs by their names.
func restoredOf(in plan.Inputs) restored {
	known := restored{Inputs: in, claims: map[string]offers.Claim{}}
	for o := range in.Offers.All() {
		c := known.claims[o.VIP.String()]
		c.VIP, c.Holders = o.VIP, append(c.Holders, o.Service)
		known.claims[o.VIP.String()] = c
	}
	return known
}

// serviceLabels are the keys of the labels of Services that the inventory needs, if one was restored.
func (r restored) serviceLabels() []string {
	if r.Inventory == nil {
		return nil
	}
	return r.Inventory.AdvertiseLabels()
}

// hasRack reports whether an inventory was restored that has the rack.
func (r restored) hasRack(name string) bool {
	if r.Inventory == nil {
		return false
	}
	_, ok := r.Inventory.Rack(name)
	return ok
}
