package ipam

import (
	"net/netip"
	"testing"

	"plinth.dev/plinth/lb"
)

// TestAClaimIsRenewedBeforeAStatusShowsItAgain: another leader may have released it, and be about
// to remove the object as it knows it.
func TestAClaimIsRenewedBeforeAStatusShowsItAgain(t *testing.T) {
	web, a := lb.ServiceKey{Namespace: "default", Name: "web"}, netip.MustParseAddr("192.0.2.1")
	s := NewState()
	o := Object{Addr: a, UID: "object", Version: "7", Parent: web, ParentUID: "uid", Holders: []lb.ServiceKey{web}}
	s.Load([]Object{o}, []Request{{Holder: Holder{Service: web}}})
	if w := s.ToHold(a, web, "uid", true); w.Verb != Nothing {
		t.Errorf("its status shows it, and it is written: %+v", w)
	}
	w := s.ToHold(a, web, "uid", false)
	if w.Verb != Update || !w.Renew || w.Object.Version != "7" || w.ParentUID != "uid" {
		t.Errorf("its status does not show it, and what is written is %+v", w)
	}
	if w := s.ToHold(a.Next(), web, "uid", false); w.Verb != Create {
		t.Errorf("there is no object, and what is written is %+v", w)
	}
}
