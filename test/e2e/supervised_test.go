package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestAnAgentAndAControllerThatAreKilledComeBack without a story's help, as they do on a kubelet.
func TestAnAgentAndAControllerThatAreKilledComeBack(t *testing.T) {
	l := story.Shared(t)
	for _, name := range []string{"agent-w1", "ccm"} {
		killed, ok := l.Process(name)
		if !ok {
			t.Fatalf("%s does not run", name)
		}
		must(t, killed.Signal(syscall.SIGKILL))
		must(t, lab.Within(t.Context(), 10*time.Second, func(context.Context) error {
			if p, ok := l.Process(name); !ok || p.Pid == killed.Pid {
				return fmt.Errorf("%s has not come back", name)
			}
			return nil
		}))
	}
	must(t, l.WaitSessions(t.Context(), "w1"))
	// Whoever leads once the lease of the one that was killed is over gives out VIPs.
	story.Web(t, l, "supervised", 1)
	vips := story.Expose(t, l, lab.LoadBalancer("supervised", "supervised"))
	story.Announced(t, l, vips)
}
