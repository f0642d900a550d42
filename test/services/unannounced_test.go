package services

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// announcedAs waits until a Service says why nobody announces its VIP; empty: it says nothing.
func (c *cluster) announcedAs(name, reason string) (since metav1.Time) {
	c.t.Helper()
	c.Eventually(40*time.Second, "service "+name+" says of announcements: "+reason, func(ctx context.Context) error {
		svc, err := c.Client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := meta.FindStatusCondition(svc.Status.Conditions, "plinth.dev/VIPAnnounced")
		if (got == nil) != (reason == "") || got != nil && (got.Reason != reason || got.Status != metav1.ConditionFalse) {
			return fmt.Errorf("the condition is %v", got)
		}
		if got != nil {
			since = got.LastTransitionTime
		}
		return nil
	})
	return since
}

func (c *cluster) unannounced(name, reason string) { c.announcedAs(name, reason) }

// withoutEndpoints takes from a Service those that endpoints gave it.
func (c *cluster) withoutEndpoints(service string) {
	c.t.Helper()
	must(c.t, c.Client.DiscoveryV1().EndpointSlices("default").Delete(c.t.Context(), service, metav1.DeleteOptions{}))
}

func TestAServiceSaysWhenNobodyAnnouncesItsVIP(t *testing.T) {
	c := newWorld(t)
	stop := c.start()
	c.has("web", "203.0.113.77")
	since := c.announcedAs("idle", "NoEndpoint")
	c.told("idle", "NoEndpoint")
	c.announcedAs("web", "")
	c.announcedAs("local", "")
	c.withoutEndpoints("local")
	c.announcedAs("local", "NoEndpoint")
	c.exclude("w1", true)
	c.endpoints("local", "w1")
	c.announcedAs("local", "NoLocalEndpoint")

	stop()
	c.exclude("w1", false) // while nobody leads
	c.start()
	c.announcedAs("local", "") // the next leader takes it off
	if now := c.announcedAs("idle", "NoEndpoint"); !now.Equal(&since) {
		t.Errorf("another leader wrote it again: since %v, before %v", now, since)
	}

	c.change("idle", func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeClusterIP })
	c.announcedAs("idle", "")
}

// exclude puts a Node's label on that keeps it from load balancing, or takes it off.
func (c *cluster) exclude(node string, on bool) {
	c.t.Helper()
	value := "null"
	if on {
		value = `""`
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{"%s":%s}}}`, v1.LabelNodeExcludeBalancers, value)
	_, err := c.Client.CoreV1().Nodes().Patch(c.t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(c.t, err)
}
