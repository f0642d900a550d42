package watch

import (
	"slices"
	"strings"
	"testing"

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

// TestLabelsAreKeptForAdvertisementsThatSelectByThemAndNoOthers: once an inventory selects by more,
// Services are listed anew, and nothing is planned with it before that.
func TestLabelsAreKeptForAdvertisementsThatSelectByThemAndNoOthers(t *testing.T) {
	s, client := followed(t, inventory.ModeDirect, agenttest.Served()...)
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
	s.Accept(t.Context(), source.Followed{Inventory: agenttest.Selecting(t, "tier", "none")}, nil)
	s.Adjust(t.Context())
	if _, missing := s.Snapshot(); missing != "the Services" {
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
	s.Accept(t.Context(), source.Followed{Inventory: agenttest.Selecting(t, "tier")}, nil)
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
	r := restored{Inputs: plan.Inputs{Inventory: agenttest.Selecting(t, "tier", "site")}}
	if got := strings.Join(r.serviceLabels(), ","); got != "site,tier" {
		t.Error(got)
	}
	if got := (restored{}).serviceLabels(); got != nil {
		t.Error(got)
	}
}
