package provider

import (
	"net/netip"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
)

// TestWhoAnnouncesIsToldByWhatTheInformersHave also has the first answer wait for an inventory.
func TestWhoAnnouncesIsToldByWhatTheInformersHave(t *testing.T) {
	c := New(Options{})
	web, vip := lb.ServiceKey{Namespace: "default", Name: "web"}, netip.MustParseAddr("203.0.113.7")
	held := map[lb.ServiceKey][]netip.Addr{web: {vip}}
	if _, err := c.unannounced(t.Context(), held); err == nil {
		t.Error("nothing is known, and it is told who announces")
	}
	client := fake.NewClientset(
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "active"}},
		&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer}},
	)
	c.client, c.informers = client, informers.NewSharedInformerFactory(client, 0)
	c.readCluster()
	c.informers.Start(t.Context().Done())
	if _, err := c.unannounced(t.Context(), held); err == nil {
		t.Error("no inventory is in force, and it is told who announces")
	}
	inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(machinesOfEveryState + "  pools: [{name: public, addresses: [203.0.113.0/28]}]\n")})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	c.inForce.Set(inv)
	got, err := c.unannounced(t.Context(), held)
	if err != nil || len(got) != 1 || got[0].Reason != lb.NoEndpoint || got[0].Services[0] != web {
		t.Errorf("%v, %v", got, err)
	}
}
