package services

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

const onePool = `    - {name: public, addresses: [192.0.2.0/29, "2001:db8:2::/64"]}`

// bothPool has room for many Services of both families.
const bothPool = `    - {name: public, addresses: [192.0.2.0/24, "2001:db8:2::/112"]}`

// bothFamilies has a Service ask for a VIP of each family.
func bothFamilies(svc *v1.Service) {
	families(v1.IPFamilyPolicyRequireDualStack, v1.IPv4Protocol, v1.IPv6Protocol)(svc)
}

func TestServiceGetsItsVIPAndGivesItBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		class func(*v1.Service)
	}{{"without a class", func(*v1.Service) {}}, {"of class plinth.dev/bgp", class}} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t)
			c.start()
			c.pools(onePool)
			c.service("four", tt.class)
			c.has("four", "192.0.2.0")
			c.service("both", tt.class, families(v1.IPFamilyPolicyRequireDualStack, v1.IPv6Protocol, v1.IPv4Protocol))
			c.has("both", "2001:db8:2::", "192.0.2.1")
			c.remove("four", "both")
			c.free("192.0.2.0", "192.0.2.1", "2001:db8:2::")
		})
	}
}
