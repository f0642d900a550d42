//go:build slow

package services

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

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
