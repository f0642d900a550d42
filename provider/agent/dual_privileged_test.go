//go:build privileged

package agent

import (
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

var dualRoutes = []string{"10.244.1.0/24", "2001:db8:113::5/128", "203.0.113.5/32", "fd00:244:0:1::/64"}

// dual is the site with pools of both families, and with further changes of its text.
func dual(t testing.TB, changes ...string) *inventory.Inventory {
	t.Helper()
	changes = append([]string{"STATE", "active", "[203.0.113.0/25]", `[203.0.113.0/25, "2001:db8:113::/112"]`}, changes...)
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(strings.NewReplacer(changes...).Replace(site))})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

// dualService is the machine's Node, and a Service with a VIP of each family.
func dualService() []runtime.Object {
	objs := append(aService("web", "203.0.113.5"), aClaim("2001:db8:113::5", "prod", "web", "uid-1"),
		aNode("w1", "10.1.0.11", "fd01::11", "10.244.1.0/24", "fd00:244:0:1::/64"))
	return append(objs, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "prod", Name: "web-6", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv6,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"fd00:244:0:2::9"}}},
	})
}
