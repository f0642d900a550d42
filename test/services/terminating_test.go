package services

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kinds are the Services that Plinth serves.
var kinds = map[string]func(*v1.Service){"class": class, "no class": func(*v1.Service) {}}

// onlyAddress is the one that all want.
const onlyAddress = "192.0.2.0"

const tinyPool = `    - {name: tiny, addresses: [192.0.2.0/32]}`

// lingering has a Service stay after its deletion, as another program's finalizer does.
func lingering(svc *v1.Service) { svc.Finalizers = append(svc.Finalizers, "example.com/hold") }

func in(namespace string) func(*v1.Service) {
	return func(svc *v1.Service) { svc.Namespace = namespace }
}

// namespace creates a namespace.
func (c *cluster) namespace(name string) {
	c.t.Helper()
	if _, err := c.Client.CoreV1().Namespaces().Create(c.t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// hasIn waits until a Service of any namespace has a VIP, and holds it.
func (c *cluster) hasIn(namespace, name, vip string) {
	c.t.Helper()
	c.Eventually(20*time.Second, fmt.Sprintf("service %s/%s has %s", namespace, name, vip), func(ctx context.Context) error {
		svc, err := c.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := ingress(svc); !slices.Equal(got, []string{vip}) {
			return fmt.Errorf("its status has %v, its conditions are %v", got, svc.Status.Conditions)
		}
		return c.holds(ctx, vip, namespace+"/"+name)
	})
}

// silent fails unless a Service that is being deleted is still there, and its status
// has neither a VIP nor Plinth's condition.
func (c *cluster) silent(name string) {
	c.t.Helper()
	svc, err := c.Client.CoreV1().Services("default").Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	condition := meta.FindStatusCondition(svc.Status.Conditions, "plinth.dev/VIPAllocated")
	if svc.DeletionTimestamp == nil || len(ingress(svc)) > 0 || condition != nil {
		c.t.Errorf("%s: deleted at %v, VIPs %v, condition %v", name, svc.DeletionTimestamp, ingress(svc), condition)
	}
}

func TestVIPOfAServiceThatLingersIsInNoStatusWhenAnotherGetsIt(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.pools(tinyPool)
			c.namespace("victim")
			c.start()
			w := c.watch()
			c.service("leaves", kind, lingering)
			c.has("leaves", onlyAddress)
			c.service("comes", kind, in("victim"))
			c.remove("leaves")
			c.hasIn("victim", "comes", onlyAddress)
			c.silent("leaves")
			c.sawNothing(w)
		})
	}
}

func TestVIPOfAServiceThatWasDeletedWhileNobodyLookedIsInNoStatusWhenAnotherGetsIt(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.pools(tinyPool)
			c.namespace("victim")
			stop := c.start()
			w := c.watch()
			c.service("leaves", kind, lingering)
			c.has("leaves", onlyAddress)
			stop()
			c.remove("leaves")
			c.service("comes", kind, in("victim"))
			c.start()
			c.hasIn("victim", "comes", onlyAddress)
			c.silent("leaves")
			c.sawNothing(w)
		})
	}
}

func TestVIPThatWasToBeGivenBackWhenTheLeaderDiedIsGivenBackByTheNext(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.pools(tinyPool)
			c.namespace("victim")
			stop := c.start()
			c.service("leaves", kind, lingering)
			c.has("leaves", onlyAddress)
			stop()
			c.remove("leaves")
			c.says("leaves") // which is as far as it came
			c.service("comes", kind, in("victim"))
			c.start()
			c.hasIn("victim", "comes", onlyAddress)
			c.silent("leaves")
		})
	}
}

// The status of such a Service is what an older version left: the VIP was given back, and
// the status was not cleared.
func TestStatusThatShowsWhatItsServiceGaveBackIsClearedBeforeAnythingIsGiven(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.pools(tinyPool)
			c.namespace("victim")
			w := c.watch()
			c.left("ghost", onlyAddress, kind)
			c.service("comes", kind, in("victim"))
			c.start()
			c.hasIn("victim", "comes", onlyAddress)
			c.silent("ghost")
			c.sawNothing(w)
		})
	}
}

func TestStatusThatShowsAnAddressOfALaterPoolIsClearedBeforeItIsGiven(t *testing.T) {
	c := newCluster(t)
	c.pools(`    - {name: other, addresses: [198.51.100.0/32]}`)
	c.namespace("victim")
	w := c.watch()
	c.start()
	c.service("first")
	c.has("first", "198.51.100.0")
	c.left("ghost", onlyAddress, class)
	c.service("comes", in("victim"))
	c.pools(`    - {name: other, addresses: [198.51.100.0/32]}` + "\n" + tinyPool)
	c.hasIn("victim", "comes", onlyAddress)
	c.silent("ghost")
	c.sawNothing(w)
}

// left creates a Service that is being deleted, lingers, and shows what it does not hold.
func (c *cluster) left(name, vip string, kind func(*v1.Service)) {
	c.t.Helper()
	c.service(name, kind, lingering)
	patch := fmt.Sprintf(`{"status":{"loadBalancer":{"ingress":[{"ip":%q,"ipMode":"VIP"}]},"conditions":[{"type":"plinth.dev/VIPAllocated",
		"status":"True","reason":"Allocated","message":"%s of pool tiny","lastTransitionTime":"2026-01-01T12:00:00Z"}]}}`, vip, vip)
	if _, err := c.Client.CoreV1().Services("default").Patch(c.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		c.t.Fatal(err)
	}
	c.remove(name)
}

func TestAddressThatAStatusShowsWithoutRightIsClearedBeforeItIsGiven(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.pools(`    - {name: prod, addresses: [192.0.2.0/32], namespaces: [prod]}`)
			c.namespace("prod")
			w := c.watch()
			c.service("shop", kind, in("prod"))
			c.service("thief", kind)
			c.says("thief", onlyAddress)
			w.mayMove("default/thief")
			c.start()
			c.hasIn("prod", "shop", onlyAddress)
			c.refused("thief", "NamespaceNotAllowed")
			c.has("thief")
			c.sawNothing(w)
		})
	}
}

func TestServiceThatMovesShowsItsOldAddressNoMoreWhenAnotherGetsIt(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.pools(`    - {name: two, addresses: [192.0.2.0/31]}`)
			c.start()
			c.service("moves", kind)
			c.has("moves", onlyAddress)
			c.service("waits", kind, annotated("plinth.dev/ips", onlyAddress))
			c.refused("waits", "AddressInUse")
			w := c.watch()
			w.mayMove("default/moves", "default/waits")
			c.change("moves", annotated("plinth.dev/ips", "192.0.2.1"))
			c.has("waits", onlyAddress)
			c.has("moves", "192.0.2.1")
			c.change("waits", annotated("plinth.dev/ips", "")) // and nothing of it is left to do
			c.settled()
			c.onlyHeld(onlyAddress, "192.0.2.1")
			c.sawNothing(w)
		})
	}
}

func TestServiceThatDropsAFamilyShowsThatAddressNoMoreWhenAnotherGetsIt(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.pools(`    - {name: two, addresses: [192.0.2.0/32, "2001:db8:2::/128"]}`)
			c.start()
			c.service("shrinks", kind, bothFamilies)
			c.has("shrinks", "192.0.2.0", "2001:db8:2::")
			c.service("waits", kind, families(v1.IPFamilyPolicySingleStack, v1.IPv6Protocol))
			c.refused("waits", "PoolExhausted")
			w := c.watch()
			w.mayMove("default/shrinks")
			c.change("shrinks", func(svc *v1.Service) {
				single := v1.IPFamilyPolicySingleStack
				svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies, svc.Spec.ClusterIPs = &single, svc.Spec.IPFamilies[:1], svc.Spec.ClusterIPs[:1]
			})
			c.has("waits", "2001:db8:2::")
			c.has("shrinks", "192.0.2.0")
			c.sawNothing(w)
		})
	}
}
