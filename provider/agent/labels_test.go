package agent

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
)

// served is Service web with its claim and an endpoint.
func served() []runtime.Object {
	web := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	web.ObjectMeta = metav1.ObjectMeta{Namespace: "d", Name: "web", Labels: map[string]string{"tier": "gold", "team": "a", "site": "b"}}
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.9"}}}}
	slice.ObjectMeta = metav1.ObjectMeta{Namespace: "d", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}
	ip := claimObject("203.0.113.7", "web", "")
	ip.Labels = map[string]string{networkingv1.LabelManagedBy: lb.ManagedBy}
	return []runtime.Object{rackNode("w1", "10.244.0.0/24", 1), web, slice, ip}
}

// TestLabelsAreKeptForAdvertisementsThatSelectByThemAndNoOthers: once an inventory selects by more,
// Services are listed anew, and nothing is planned with it before that.
func TestLabelsAreKeptForAdvertisementsThatSelectByThemAndNoOthers(t *testing.T) {
	s, client := followed(t, inventory.ModeDirect, served()...)
	has := func(labels advertise.Labels) func(plan.Inputs) bool {
		return func(in plan.Inputs) bool {
			o, ok := in.Offers.Next(advertise.Offer{})
			return ok && o.Labels == labels && o.Service == lb.ServiceKey{Namespace: "d", Name: "web"} && o.Endpoints.Any == 1
		}
	}
	until(t, s, "the VIP without labels", has(""))

	may := make(chan struct{})
	client.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-may
		return false, nil, nil
	})
	s.accept(t.Context(), source.Followed{Inventory: agenttest.Selecting(t, "tier", "none")}, nil)
	s.adjust(t.Context())
	if _, missing := s.snapshot(); missing != "the Services" {
		t.Errorf("before they are listed anew it waits for %q", missing)
	}
	s.mu.Lock()
	if all := s.index.All(); all.Len() != 1 {
		t.Errorf("meanwhile there are the offers %v", all)
	}
	s.mu.Unlock()
	close(may)
	until(t, s, "the VIP with the label", has("tier=gold"))

	client.ClearActions()
	s.accept(t.Context(), source.Followed{Inventory: agenttest.Selecting(t, "tier")}, nil)
	until(t, s, "an inventory that selects by less", func(in plan.Inputs) bool { return len(in.Inventory.AdvertiseLabels()) == 1 })
	if slices.ContainsFunc(client.Actions(), func(a clienttesting.Action) bool { return a.Matches("list", "services") }) {
		t.Error("Services were listed anew for labels that are known")
	}

	web, err := client.CoreV1().Services("d").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	web.Labels["tier"] = "silver"
	if _, err := client.CoreV1().Services("d").Update(t.Context(), web, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the label as it is now", has("tier=silver"))
	if err := client.CoreV1().Services("d").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "no VIP", func(in plan.Inputs) bool { return in.Offers.Len() == 0 })
}

// TestAnAgentThatStartsAgainAsksForTheLabelsThatItsInventorySelectsBy at once.
func TestAnAgentThatStartsAgainAsksForTheLabelsThatItsInventorySelectsBy(t *testing.T) {
	r := remembered{Inputs: plan.Inputs{Inventory: agenttest.Selecting(t, "tier", "site")}}
	if got := strings.Join(r.serviceLabels(), ","); got != "site,tier" {
		t.Error(got)
	}
	if got := (remembered{}).serviceLabels(); got != nil {
		t.Error(got)
	}
}
