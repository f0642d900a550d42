package event

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// backlogged runs a test in a bubble with a Backlog before a recorder that holds n Events.
func backlogged(t *testing.T, n int, test func(b *Backlog, urgent *atomic.Bool, recorded chan string)) {
	synctest.Test(t, func(t *testing.T) {
		recorder, urgent := record.NewFakeRecorder(n), &atomic.Bool{}
		b := NewBacklog(recorder, urgent.Load, slog.New(slog.DiscardHandler))
		go b.Run(t.Context())
		test(b, urgent, recorder.Events)
	})
}

func (b *Backlog) say(i int) {
	b.Eventf(&v1.Service{}, v1.EventTypeNormal, "Allocated", "%d", i)
}

func TestAnEventIsRecordedAtOnceWhereNothingIsUrgent(t *testing.T) {
	backlogged(t, 9, func(b *Backlog, _ *atomic.Bool, recorded chan string) {
		begun := time.Now()
		b.say(1)
		if got := <-recorded; got != "Normal Allocated 1" || time.Since(begun) > 0 {
			t.Errorf("%q after %v", got, time.Since(begun))
		}
	})
}

func TestEventsLetWhatIsUrgentGoFirst(t *testing.T) {
	backlogged(t, 9, func(b *Backlog, urgent *atomic.Bool, recorded chan string) {
		urgent.Store(true)
		b.say(1)
		time.Sleep(patience - time.Second)
		if len(recorded) > 0 {
			t.Fatalf("recorded while something was urgent: %q", <-recorded)
		}
		urgent.Store(false)
		begun := time.Now()
		if <-recorded; time.Since(begun) > look {
			t.Errorf("recorded %v after nothing was urgent any more", time.Since(begun))
		}
	})
}

func TestEventsDoNotWaitForEver(t *testing.T) {
	backlogged(t, 9, func(b *Backlog, urgent *atomic.Bool, recorded chan string) {
		urgent.Store(true)
		b.say(1)
		begun := time.Now()
		if <-recorded; time.Since(begun) > patience+look {
			t.Errorf("recorded after %v", time.Since(begun))
		}
	})
}

func TestABurstOfEventsIsRecordedWholeInOrderAndNoFasterThanItIsSent(t *testing.T) {
	const n = 3000
	backlogged(t, n, func(b *Backlog, urgent *atomic.Bool, recorded chan string) {
		begun := time.Now()
		for i := range n {
			b.say(i)
		}
		for i := range n {
			if got, want := <-recorded, fmt.Sprintf("Normal Allocated %d", i); got != want {
				t.Fatalf("%q, not %q", got, want)
			}
			if most := atOnce + 1 + int(time.Since(begun).Seconds()*perSecond); i > most {
				t.Fatalf("%d Events after %v", i, time.Since(begun))
			}
		}
		if took := time.Since(begun); took > time.Duration(n/perSecond+1)*time.Second {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		if b.waiting != nil {
			t.Errorf("%d wait still", len(b.waiting))
		}
	})
}

func TestABacklogHasABound(t *testing.T) {
	b := NewBacklog(record.NewFakeRecorder(1), func() bool { return true }, slog.New(slog.DiscardHandler))
	for i := range maxBacklog + 3 {
		b.say(i)
	}
	if len(b.waiting) != maxBacklog || b.dropped != 3 {
		t.Errorf("%d wait, %d were dropped", len(b.waiting), b.dropped)
	}
}
