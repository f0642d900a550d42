package claim

import (
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"plinth.dev/plinth/lb"
)

func TestClaimSaysWhoHoldsIt(t *testing.T) {
	key := lb.ServiceKey{Namespace: "d", Name: "s"}
	obj := New(netip.MustParseAddr("2001:db8::1"), "public", key, "u1")
	if obj.Name != "2001:db8::1" {
		t.Errorf("name %s is not canonical", obj.Name)
	}
	c, ours := Read(obj)
	if !ours || !c.HeldBy(key) || c.ParentUID != "u1" || c.Pool != "public" {
		t.Errorf("ours %v: %+v", ours, c)
	}
	obj.Annotations[lb.SharedByAnnotation] = "d/a,d/b"
	if c, _ := Read(obj); c.HeldBy(key) || len(c.Holders) != 2 {
		t.Errorf("shared: held by %v", c.Holders)
	}
	obj.Labels[networkingv1.LabelManagedBy] = "example.com"
	if _, ours := Read(obj); ours {
		t.Error("another program's object was taken for ours")
	}
}
