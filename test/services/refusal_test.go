package services

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServiceThatWaitsIsToldWhyAndServedWhenThePoolGrows(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.pools(`    - {name: small, addresses: [192.0.2.0/32]}`)
	c.service("first")
	c.has("first", "192.0.2.0")
	c.service("second")
	c.service("third", class)
	c.service("fourth", families(v1.IPFamilyPolicyPreferDualStack, v1.IPv4Protocol, v1.IPv6Protocol), annotated("metallb.io/address-pool", "six"))
	c.refused("second", "PoolExhausted")
	c.refused("third", "PoolExhausted")
	c.refused("fourth", "PoolUnknown")
	c.told("second", "PoolExhausted")

	c.pools(`
    - {name: six, addresses: ["2001:db8:6::/64"]}
    - {name: small, addresses: [192.0.2.0/30]}
`)
	c.AwaitStatus("generation", "2")
	c.has("second", "192.0.2.1")
	c.has("third", "192.0.2.2")
	c.has("fourth", "2001:db8:6::")
	c.allocated("second", "Allocated")
	c.allocated("fourth", "OneFamilyOnly")

	c.pools(`    - {name: six, addresses: ["2001:db8:6::/64", 198.51.100.0/30]}`)
	c.has("fourth", "198.51.100.0", "2001:db8:6::")
	c.has("first", "192.0.2.0")
	c.remove("first", "second", "third", "fourth")
	c.free("192.0.2.0", "192.0.2.1", "192.0.2.2", "198.51.100.0", "2001:db8:6::")
}

func TestServiceThatWaitsIsServedWhenAnotherGoes(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.pools(`    - {name: small, addresses: [192.0.2.0/32]}`)
	c.service("first")
	c.has("first", "192.0.2.0")
	c.service("second")
	c.refused("second", "PoolExhausted")
	c.remove("first")
	c.has("second", "192.0.2.0")
}

func TestStatusOfAServiceThatGetsNothingIsLeftToAnotherBalancer(t *testing.T) {
	c := newCluster(t)
	c.service("theirs")
	c.says("theirs", "203.0.113.9")
	c.pools(`    - {name: small, addresses: [192.0.2.0/32], autoAssign: false}`)
	c.start()
	c.refused("theirs", "PoolNotAutomatic")
	svc, err := c.Client.CoreV1().Services("default").Get(t.Context(), "theirs", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := ingress(svc); len(got) != 1 || got[0] != "203.0.113.9" {
		t.Errorf("its status has %v", got)
	}

	c.service("both", class, families(v1.IPFamilyPolicyRequireDualStack, v1.IPv6Protocol, v1.IPv4Protocol))
	c.refused("both", "PoolNotAutomatic")
	c.says("both", "2001:db8:9::5", "203.0.113.10")
	c.service("eager", annotated("plinth.dev/pool", "theirs"))
	c.refused("eager", "PoolUnknown")
	pool := `    - {name: theirs, addresses: [203.0.113.9-203.0.113.11, "2001:db8:9::/64"], autoAssign: false, exclude: [203.0.113.9]}`
	c.pools(pool) // the other balancer's pool comes
	c.has("both", "2001:db8:9::5", "203.0.113.10")
	c.has("eager", "203.0.113.11")
	c.pools(strings.Replace(pool, ", exclude: [203.0.113.9]", "", 1))
	c.has("theirs", "203.0.113.9")
}

// told waits for a Warning Event on a Service.
func (c *cluster) told(name, reason string) {
	c.t.Helper()
	c.Eventually(10*time.Second, "an Event "+reason+" on "+name, func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Reason == reason && e.Type == v1.EventTypeWarning {
				return nil
			}
			seen = append(seen, e.Reason)
		}
		return fmt.Errorf("only %v", seen)
	})
}

// allocated waits until the condition of a Service is true for this reason.
func (c *cluster) allocated(name, reason string) {
	c.t.Helper()
	c.Eventually(10*time.Second, "the condition of "+name+" is "+reason, func(ctx context.Context) error {
		svc, err := c.Client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := meta.FindStatusCondition(svc.Status.Conditions, "plinth.dev/VIPAllocated")
		if got == nil || got.Status != metav1.ConditionTrue || got.Reason != reason {
			return fmt.Errorf("the condition is %v", got)
		}
		return nil
	})
}
