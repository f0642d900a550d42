package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAnAgentFollowsTheOneBeforeIt listens where another agent does, which then ends.
func TestAnAgentFollowsTheOneBeforeIt(t *testing.T) {
	before, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	type serving struct {
		stop func()
		err  error
	}
	served := make(chan serving, 1)
	go func() {
		stop, err := serve(t.Context(), "listen", before.Addr().String(), http.NotFoundHandler())
		served <- serving{stop, err}
	}()
	select {
	case s := <-served:
		t.Fatalf("beside another one it serves: %v", s.err)
	case <-time.After(4 * listenEvery):
	}
	before.Close()
	select {
	case s := <-served:
		if s.err != nil {
			t.Fatal(s.err)
		}
		s.stop()
	case <-time.After(30 * time.Second):
		t.Fatal("it does not follow")
	}
}

// TestAnAgentThatWaitsCanBeEnded gets SIGTERM while another one listens.
func TestAnAgentThatWaitsCanBeEnded(t *testing.T) {
	before, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := serve(ctx, "listen", before.Addr().String(), http.NotFoundHandler()); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("it says %v", err)
	}
}

func TestAnAddressThatIsNoneIsNotWaitedFor(t *testing.T) {
	if _, err := serve(t.Context(), "listen", "127.0.0.1:no", http.NotFoundHandler()); err == nil {
		t.Error("it serves")
	}
}

// TestATakenMetricsPortKeepsNoAgentFromItsWork: what listens there may be no agent, and never end.
func TestATakenMetricsPortKeepsNoAgentFromItsWork(t *testing.T) {
	other, at, log := takenPort(t)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	f := &flags{listen: "127.0.0.1:0", metrics: at}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stop, err := f.serve(ctx, metrics)
	if err != nil {
		t.Fatal("the agent does not begin:", err)
	}
	defer stop()
	<-time.After(4 * listenEvery) // it tries again and again, and says so once
	other.Close()
	answered := func() bool {
		answer, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusNoContent
	}
	for end := time.Now().Add(30 * time.Second); !answered(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the port is free, and nothing is served there")
		}
	}
	stop()
	if said := log.String(); strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, "flag=metrics-listen address="+at) {
		t.Errorf("of the port that is taken the log says\n%s", said)
	}
	isFree(t, at)
}

func TestAnAgentEndsWhileItsMetricsPortIsTaken(t *testing.T) {
	other, at, log := takenPort(t)
	stop, err := serveOnceFree("metrics-listen", at, http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	stop()
	other.Close()
	if said := log.String(); strings.Count(said, "\n") != 1 {
		t.Errorf("of a port that nobody wants any more the log says\n%s", said)
	}
	isFree(t, at)
}

func TestAMetricsAddressThatIsNoneEndsTheAgent(t *testing.T) {
	f := &flags{listen: "127.0.0.1:0", metrics: "127.0.0.1:no"}
	if _, err := f.serve(t.Context(), http.NotFoundHandler()); err == nil || !strings.Contains(err.Error(), "--metrics-listen") {
		t.Errorf("it says %v", err)
	}
}

// takenPort is one where another program listens, and the log of what the agent says to that.
func takenPort(t *testing.T) (other net.Listener, at string, log *strings.Builder) {
	t.Helper()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	log = &strings.Builder{}
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	return other, other.Addr().String(), log
}

func isFree(t *testing.T, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Errorf("the agent listens after its end: %v", err)
		return
	}
	l.Close()
}
