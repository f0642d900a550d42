package services

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/installation"
)

// renamed is the lease of deploy/components/beside-another-controller.
const renamed = "plinth-cloud-controller-manager"

// runsOn waits until the installation runs on a lease.
func (c *cluster) runsOn(lease string) {
	c.t.Helper()
	c.Eventually(40*time.Second, "the installation runs on lease "+lease, func(ctx context.Context) error {
		got, err := installation.LeaseOf(ctx, c.Client, oldNamespace)
		if err == nil && got != lease {
			err = fmt.Errorf("it runs on %s", got)
		}
		return err
	})
}

// TestTheLeaseOfAnInstallationThatRunsIsRenamedAndBack is what a rolling upgrade does that changes --leader-elect-resource-name: old
// and new controllers are elected side by side.
func TestTheLeaseOfAnInstallationThatRunsIsRenamedAndBack(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.pools(bothPool)
	first := c.in(oldNamespace)
	c.service("a")
	c.has("a", "192.0.2.0")

	c.ApplyRights("../components/beside-another-controller/rbac.yaml")
	second := c.in(oldNamespace, "--leader-elect-resource-name="+renamed)
	c.logged("holds lease " + source.DefaultLease + ", which the installation of namespace " + oldNamespace + " runs on")
	c.Eventually(20*time.Second, "an Event says why the controller waits", func(ctx context.Context) error {
		all, err := c.Client.CoreV1().Events(oldNamespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=OtherInstallation,involvedObject.kind=Lease,involvedObject.name=" + renamed})
		if err == nil && (len(all.Items) == 0 || !strings.Contains(all.Items[0].Message, "holds lease "+source.DefaultLease)) {
			err = fmt.Errorf("there are %d: %+v", len(all.Items), all.Items)
		}
		return err
	})
	c.runsOn(source.DefaultLease)
	c.service("b")
	c.has("b", "192.0.2.1")

	first.Terminate()
	c.runsOn(renamed)
	c.service("c")
	c.has("c", "192.0.2.2")

	third := c.in(oldNamespace)
	c.logged("holds lease " + renamed + ", which the installation of namespace " + oldNamespace + " runs on")
	second.Kill() // its machine is gone: its lease has to be over first
	c.runsOn(source.DefaultLease)
	c.service("d")
	c.has("d", "192.0.2.3")
	third.Terminate()
}
