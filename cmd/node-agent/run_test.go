package main

import (
	"context"
	"errors"
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
