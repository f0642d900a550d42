package still

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plinth.dev/plinth/wait"
)

// More programs than there are processors, which want one all the time: each of them waits.
func TestAProgramThatLacksAProcessorIsNoted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "plt-starved")
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(shell)
	if err == nil {
		err = os.WriteFile(program, text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := Begin(ctx, "plt-starved")
	for range 4 * runtime.NumCPU() {
		cmd := exec.CommandContext(ctx, program, "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cancel(); _ = cmd.Wait() }()
	}
	wait.True(t, 10*time.Second, 50*time.Millisecond, "a program that waits is noted", func() (bool, string) {
		for _, one := range w.Starved(begun, time.Now()) {
			if strings.HasPrefix(one.Who, "plt-starved (process ") && one.Took >= tooLong {
				return true, ""
			}
		}
		return false, "none is"
	})
}

func TestAWaitCountsInTheTimeThatItReachesInto(t *testing.T) {
	var w Watch
	at := time.Now()
	w.note(Wait{machine, at, 60 * time.Millisecond}, Wait{"bgpd (process 7)", at.Add(time.Second), 2 * time.Second}, Wait{machine, at.Add(time.Second), 200 * time.Millisecond})
	if times, sum, longest := w.Stood(at, at.Add(time.Minute)); times != 2 || sum != 260*time.Millisecond || longest != 200*time.Millisecond {
		t.Errorf("the machine stood still %d times, %v in all, %v at the most", times, sum, longest)
	}
	for _, c := range []struct {
		from, to time.Duration
		want     int
	}{{-time.Second, 0, 0}, {0, 500 * time.Millisecond, 0}, {0, 2 * time.Second, 2}, {2 * time.Second, 4 * time.Second, 1}, {3 * time.Second, 4 * time.Second, 0}} {
		got := w.Starved(at.Add(c.from), at.Add(c.to))
		if len(got) != c.want || len(got) > 0 && got[0].Who != "bgpd (process 7)" {
			t.Errorf("from %v to %v: %v, want %d", c.from, c.to, got, c.want)
		}
	}
}

func TestOnlyWhatAMachineStoodStillCounts(t *testing.T) {
	var w Watch
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	w.StandsStill(at(100), at(400))
	w.StandsStill(at(1000), at(1200))
	w.note(Wait{"bgpd (process 7)", at(0), time.Second})
	for _, c := range []struct{ from, to, within, longest int }{
		{0, 50, 0, 0}, {0, 200, 100, 300}, {200, 300, 100, 300}, {0, 2000, 500, 300}, {300, 1100, 200, 300}, {500, 600, 0, 0}, {1100, 1150, 50, 200},
	} {
		if got := w.Within(at(c.from), at(c.to)); got != time.Duration(c.within)*time.Millisecond {
			t.Errorf("from %d to %d ms it stood still for %v", c.from, c.to, got)
		}
		if got := w.Longest(at(c.from), at(c.to)); got != time.Duration(c.longest)*time.Millisecond {
			t.Errorf("from %d to %d ms the longest stall is %v", c.from, c.to, got)
		}
	}
}

func TestALookThatIsInTimeNotesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		begun, w := time.Now(), Begin(ctx)
		time.Sleep(time.Minute)
		stop()
		time.Sleep(2 * Tick) // it ends at its next look
		if times, sum, _ := w.Stood(begun, time.Now()); times > 0 {
			t.Errorf("%v in %d stalls", sum, times)
		}
	})
}

func TestPressureGrows(t *testing.T) {
	before, err := Pressure()
	if err != nil {
		t.Fatal(err)
	}
	if after, err := Pressure(); err != nil || after < before {
		t.Errorf("from %v to %v, %v", before, after, err)
	}
}
