package nodes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/apiserver"
)

// TestTheAPIServerIsWaitedForFromTheStart: the controller manager says where, and works once it is there.
func TestTheAPIServerIsWaitedForFromTheStart(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.edit(apiserver.ManyMachines(1))
	c.StopServer()
	p := c.Launch(elected...)
	c.Eventually(20*time.Second, "it says what it waits for", func(context.Context) error {
		if log := c.Log(apiserver.ControllerName); !strings.Contains(log, `"Waiting for the API server" server="`+c.URL()) {
			return fmt.Errorf("it says %q", log)
		}
		return nil
	})
	time.Sleep(5 * time.Second) // it would have ended by now, or said it again
	if n := len(c.logged(0)); n > 2 {
		t.Errorf("%d lines:\n%s", n, c.Log(apiserver.ControllerName))
	}
	c.StartServer()
	c.CreateNodes(1)
	c.AwaitInitialised(time.Minute, 1)
	p.Kill()
}
