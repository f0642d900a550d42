package services

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// restored is how etcd is restored from a backup, and by whom it is noticed.
type restored struct {
	start   func(c *cluster)                     // before the backup is older than what there is
	restore func(c *cluster, b apiserver.Backup) // until somebody leads again
}

func TestRestoredEtcdNeitherMovesNorDoublesAnAddress(t *testing.T) {
	t.Parallel() // it mostly waits
	testRestore(t, livedThrough(t, func(c *cluster, b apiserver.Backup) { c.Restore(b) }))
}

// livedThrough has the leader notice the restore, which ends it, and the next one read its file.
func livedThrough(t *testing.T, put func(c *cluster, b apiserver.Backup)) restored {
	var leader *apiserver.Process
	state := "--state-dir=" + filepath.Join(t.TempDir(), "state")
	return restored{
		start: func(c *cluster) { leader = c.Launch("--configure-cloud-routes=false", state) },
		restore: func(c *cluster, b apiserver.Backup) {
			put(c, b)
			leader.Ended(30 * time.Second)
			c.start(state)
		},
	}
}

// writtenDown has the leader end before the backup is put back, and the next one read its file.
func writtenDown(t *testing.T, put func(c *cluster, b apiserver.Backup, meanwhile func())) restored {
	var leader *apiserver.Process
	state := filepath.Join(t.TempDir(), "state")
	return restored{
		start: func(c *cluster) { leader = c.elected("--state-dir=" + state) },
		restore: func(c *cluster, b apiserver.Backup) {
			put(c, b, func() {
				leader.Ended(30 * time.Second)
				c.elected("--state-dir=" + state)
			})
		},
	}
}

// testRestore restores a backup that lacks Services, and VIPs of Services that it has.
func testRestore(t *testing.T, how restored) {
	c := newCluster(t)
	c.pools(`    - {name: public, addresses: [192.0.2.0/28, "2001:db8:2::/112"], serviceSelector: {matchLabels: {public: "yes"}}}`)
	public := func(svc *v1.Service) {
		metav1.SetMetaDataLabel(&svc.ObjectMeta, "public", "yes")
		bothFamilies(svc)
	}
	first := c.Launch("--configure-cloud-routes=false")
	c.service("kept", public)
	c.has("kept", "192.0.2.0", "2001:db8:2::")
	c.service("returns", class, public)
	c.has("returns", "192.0.2.1", "2001:db8:2::1")
	c.service("waits", bothFamilies)
	c.refused("waits", "LabelsNotSelected")
	first.Kill()
	backup := c.Backup()

	how.start(c)
	c.age(100)
	c.remove("returns")
	c.free("192.0.2.1", "2001:db8:2::1")
	c.service("lost", public)
	c.has("lost", "192.0.2.2", "2001:db8:2::2")
	c.change("waits", public)
	c.has("waits", "192.0.2.3", "2001:db8:2::3")
	c.age(100)

	how.restore(c, backup)
	c.service("new", public)
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

// isLed waits until somebody leads.
func (c *cluster) isLed() {
	c.t.Helper()
	c.Eventually(20*time.Second, "somebody leads", func(ctx context.Context) error {
		_, err := c.Client.CoordinationV1().Leases("kube-system").Get(ctx, "cloud-controller-manager", metav1.GetOptions{})
		return err
	})
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
