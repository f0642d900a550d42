package cluster

import (
	"net/netip"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/claim"
)

// TestWhoIsToAnswerForAVIPIsReadFromItsObjectAndItsService: the controller chooses, the Service may ask, and the agent
// that answers says so.
func TestWhoIsToAnswerForAVIPIsReadFromItsObjectAndItsService(t *testing.T) {
	vip := netip.MustParseAddr("192.168.1.200")
	obj := claim.New(vip, "lan", lb.ServiceKey{Namespace: "default", Name: "web"}, "")
	obj.Annotations[lb.HomesAnnotation] = "nuc2,nuc1"
	obj.Labels[lb.OwnerLabel] = "nuc1"
	svc := service("web", "")
	svc.Annotations = map[string]string{lb.HomeAnnotation: "nuc2"}
	c, err := Of([]*networkingv1.IPAddress{obj}, nil, []*v1.Service{svc}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Homes[vip], []string{"nuc2", "nuc1"}) || c.Owners[vip] != "nuc1" || len(c.Services) != 1 || c.Services[0].Home != "nuc2" {
		t.Errorf("%+v", c)
	}
}
