package leader

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"plinth.dev/plinth/uptime"
)

func TestProcessThatWasStoppedWritesNothing(t *testing.T) {
	served := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	defer server.Close()
	restarted := make(chan struct{}, 2)
	stalls := &stallDetector{limit: time.Minute, last: uptime.Now(), onStall: func() { restarted <- struct{}{} }}
	client := http.Client{Transport: fenced{http.DefaultTransport, &SelfFence{stalls: stalls}}}
	send := func(method string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	if err := send(http.MethodPost); err != nil || served != 1 {
		t.Fatalf("while it runs: %v", err)
	}
	stalls.last -= 2 * time.Minute
	for range 2 { // the second finds that it ran a moment ago
		if err := send(http.MethodPatch); !errors.Is(err, errStalled) {
			t.Errorf("after it was stopped: %v", err)
		}
	}
	if err := send(http.MethodGet); err != nil || served != 2 {
		t.Errorf("reading: %v, %d requests", err, served)
	}
	<-restarted
	if len(restarted) > 0 {
		t.Error("it is ended twice")
	}
}
