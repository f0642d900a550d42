package wait

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errNotYet = errors.New("not yet")

// looks returns a look at what comes true after a while, and how often it was made.
func looks(after time.Duration) (look func(context.Context) error, times *int) {
	begun, n := time.Now(), 0
	return func(ctx context.Context) error {
		if n++; ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(begun) < after {
			return errNotYet
		}
		return nil
	}, &n
}

func TestALimitIsWaitedForFiveTimesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look, times := looks(49 * time.Second)
		if err := Within(t.Context(), 10*time.Second, time.Second, look); err != nil || *times != 50 {
			t.Errorf("%v after %d looks", err, *times)
		}
	})
}

func TestThereIsOneLookMoreWhenTheTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look, times := looks(50 * time.Second)
		if err := Within(t.Context(), 10*time.Second, 40*time.Second, look); err != nil || *times != 3 {
			t.Errorf("%v after %d looks", err, *times)
		}
	})
}

func TestAnErrorSaysHowLongWasWaitedAndWhatWasSeenLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look, _ := looks(time.Hour)
		err := Within(t.Context(), 10*time.Second, time.Second, look)
		if !errors.Is(err, errNotYet) || !strings.HasPrefix(err.Error(), "not within 50s: ") || errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestWhoeverCancelsEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, cancel)
		look, times := looks(time.Hour)
		if err := Within(ctx, 10*time.Second, time.Second, look); !errors.Is(err, context.Canceled) || *times != 2 {
			t.Errorf("%v after %d looks", err, *times)
		}
	})
}
