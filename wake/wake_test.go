package wake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestUpNeverWaitsAndWakesOnce(t *testing.T) {
	sleeper := make(chan struct{}, 1)
	Up(sleeper)
	Up(sleeper)
	<-sleeper
	select {
	case <-sleeper:
		t.Error("a goroutine that had not received was woken twice")
	default:
	}
}

func TestAfterWaitsItsTimeWhileTheContextLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if alive := After(t.Context(), time.Minute); !alive || time.Since(began) != time.Minute {
			t.Errorf("After = %v after %v, want true after a minute", alive, time.Since(began))
		}
	})
}

func TestAfterEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if alive := After(ctx, time.Minute); alive || time.Since(began) != time.Second {
			t.Errorf("After = %v after %v, want false after a second", alive, time.Since(began))
		}
	})
}
