package services

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRestoredEtcdNeitherMovesNorDoublesAnAddress(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.pools(`    - {name: public, addresses: [192.0.2.0/28, "2001:db8:2::/112"], serviceSelector: {matchLabels: {public: "yes"}}}`)
	public := func(svc *v1.Service) {
		metav1.SetMetaDataLabel(&svc.ObjectMeta, "public", "yes")
		bothFamilies(svc)
	}
	leader := c.Launch("--configure-cloud-routes=false")
	c.service("kept", public)
	c.has("kept", "192.0.2.0", "2001:db8:2::")
	c.service("returns", class, public)
	c.has("returns", "192.0.2.1", "2001:db8:2::1")
	c.service("waits", bothFamilies)
	c.refused("waits", "LabelsNotSelected")
	backup := c.Backup()

	c.remove("returns")
	c.free("192.0.2.1", "2001:db8:2::1")
	c.service("lost", public)
	c.has("lost", "192.0.2.2", "2001:db8:2::2")
	c.change("waits", public)
	c.has("waits", "192.0.2.3", "2001:db8:2::3")
	c.age(100)

	c.Restore(backup)
	leader.Ended(30 * time.Second) // it knows too much
	c.service("new", public)
	c.start()
	c.has("kept", "192.0.2.0", "2001:db8:2::")
	c.has("returns", "192.0.2.1", "2001:db8:2::1")
	c.has("waits", "192.0.2.3", "2001:db8:2::3") // it is what clients know it by
	c.has("new", "192.0.2.4", "2001:db8:2::4")   // lost, if it is made again, will find its own
	// The leader, before it knew, may have taken lost's again, which the next one gives back.
	c.onlyHeld("192.0.2.0", "192.0.2.1", "192.0.2.3", "192.0.2.4",
		"2001:db8:2::", "2001:db8:2::1", "2001:db8:2::3", "2001:db8:2::4")
	c.service("lost", public)
	c.has("lost", "192.0.2.2", "2001:db8:2::2")
}

// age has n things happen that have nothing to do with Services.
func (c *cluster) age(n int) {
	c.t.Helper()
	maps := c.Client.CoreV1().ConfigMaps("default")
	for range n {
		m, err := maps.Create(c.t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "age-"}}, metav1.CreateOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		if err := maps.Delete(c.t.Context(), m.Name, metav1.DeleteOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}
