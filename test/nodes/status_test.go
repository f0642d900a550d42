package nodes

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// TestAStatusThatIsDeletedIsWrittenAgain deletes what several controllers write a part of each.
func TestAStatusThatIsDeletedIsWrittenAgain(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.edit(skewed("a", "active"))
	c.start()
	c.AwaitStatus("machinesWithoutNode", "old\nw1")
	configs, name := c.Client.CoreV1().ConfigMaps("kube-system"), "plinth-inventory-status"
	was, err := configs.Get(t.Context(), name, metav1.GetOptions{})
	if err == nil {
		err = configs.Delete(t.Context(), name, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Eventually(10*time.Second, "the status is there again", func(ctx context.Context) error {
		is, err := configs.Get(ctx, name, metav1.GetOptions{})
		if err == nil && !maps.Equal(is.Data, was.Data) {
			err = fmt.Errorf("it says %v, and said %v", is.Data, was.Data)
		}
		return err
	})
}
