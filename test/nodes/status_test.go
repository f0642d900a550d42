package nodes

import (
	"context"
	"fmt"
	"maps"
	"strings"
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

// TestStatusSaysThatNoControllerLeads once the lease is over, and not while one does: what the dead one wrote last says
// that all is well.
func TestStatusSaysThatNoControllerLeads(t *testing.T) {
	program := plinth(t)
	c := newCluster(t, apiserver.Options{})
	c.edit(skewed("a", "active"))
	stop := c.start(elected...)
	c.AwaitStatus("generation", "1")
	const none = "controller: none leads"
	if code, out := c.ask(program, "status"); code > 1 || strings.Contains(out, none) {
		t.Errorf("while one leads plinth status ends with %d:\n%s", code, out)
	}
	stop()
	c.Eventually(20*time.Second, "plinth status says that it is dead", func(context.Context) error {
		if code, out := c.ask(program, "status"); code != 1 || !strings.Contains(out, none+": ") || !strings.Contains(out, " had the lease kube-system/cloud-controller-manager, and renewed it ") {
			return fmt.Errorf("it ends with %d:\n%s", code, out)
		}
		return nil
	})
	c.start(elected...)
	c.Eventually(20*time.Second, "plinth status says that one leads", func(context.Context) error {
		if code, out := c.ask(program, "status"); code > 1 || strings.Contains(out, none) {
			return fmt.Errorf("it ends with %d:\n%s", code, out)
		}
		return nil
	})
}
