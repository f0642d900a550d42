package queue

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

func TestAQueueThatEndsWaitsForWhatIsWorkedOnAndBeginsNothing(t *testing.T) {
	begun, answer := make(chan string, 2), make(chan struct{})
	q := New("test", slog.New(slog.DiscardHandler), func(_ context.Context, name string) error {
		begun <- name
		<-answer
		return nil
	})
	q.Add("worked on")
	q.Add("queued")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		q.Run(ctx, 1)
		close(ended)
	}()
	if name := <-begun; name != "worked on" {
		t.Fatalf("%q is worked on", name)
	}
	cancel()
	for !q.ShuttingDown() {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-ended:
		t.Error("it ended while an item was worked on")
	case <-time.After(50 * time.Millisecond):
	}
	close(answer)
	<-ended
	if len(begun) > 0 {
		t.Errorf("%q was begun after the end", <-begun)
	}
}
