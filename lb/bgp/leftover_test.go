package bgp

import "testing"

// TestTheQueueOfAPeerIsFound fails where a version of GoBGP has it elsewhere: then see
// whether it still leaves anything behind.
func TestTheQueueOfAPeerIsFound(t *testing.T) {
	session := sessionWithoutRouter(t)
	onOwner(t, session, func() {
		if session.server.queue == nil {
			t.Fatal("what is left of a lost session cannot be taken out of GoBGP's queue")
		}
		queue := session.server.queue
		for i := range 1000 {
			queue.In() <- i
		}
		session.closeServer(t.Context(), withoutNotification)
		if left, open := <-queue.Out(); open {
			t.Errorf("%v is left in the queue", left)
		}
	})
}
