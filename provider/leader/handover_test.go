package leader

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// slowWrite begins a write through a fence; it is answered when answer is closed, and its
// error comes out of done then.
func slowWrite(t *testing.T, f *SelfFence, answer <-chan struct{}) (done <-chan error, write func() error) {
	t.Helper()
	arrived, ended := make(chan struct{}, 1), make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	f.Enclose(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	write = func() error {
		answer, err := client.Post(server.URL, "", strings.NewReader("{}"))
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	go func() { ended <- write() }()
	<-arrived
	return ended, write
}

func neverStalls() *SelfFence { return &SelfFence{stalls: &stallDetector{limit: 1 << 62}} }

// heldBy is a lock on a lease that somebody holds.
func heldBy(t *testing.T, holder string) resourcelock.Interface {
	t.Helper()
	lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "lease"}, Client: fake.NewClientset().CoordinationV1()}
	if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 15}); err != nil {
		t.Fatal(err)
	}
	return lock
}

func holder(t *testing.T, lock resourcelock.Interface) string {
	t.Helper()
	held, _, err := lock.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return held.HolderIdentity
}

func me() string { return "me" }

func TestALeaseIsGivenUpAfterTheLastWriteWasAnswered(t *testing.T) {
	f, lock, answer := neverStalls(), heldBy(t, "me"), make(chan struct{})
	done, write := slowWrite(t, f, answer)
	ended := make(chan error, 1)
	go func() { ended <- HandOver(t.Context(), f, lock, me) }()
	for limit := time.Now().Add(10 * time.Second); f.begin() == nil; f.inFlight.Done() {
		if time.Now().After(limit) {
			t.Fatal("the fence is still open")
		}
	}
	if err := write(); !errors.Is(err, errEnding) {
		t.Errorf("another write: %v", err)
	}
	if got := holder(t, lock); got != "me" || len(ended) > 0 {
		t.Errorf("while a write is in flight the lease is %q's", got)
	}
	close(answer)
	if err := <-done; err != nil {
		t.Errorf("the write that was in flight: %v", err)
	}
	if err := <-ended; err != nil || holder(t, lock) != "" {
		t.Errorf("then the lease is %q's; %v", holder(t, lock), err)
	}
}

func TestALeaseIsKeptWhileAWriteMayStillLand(t *testing.T) {
	f, lock, answer := neverStalls(), heldBy(t, "me"), make(chan struct{})
	done, _ := slowWrite(t, f, answer)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := HandOver(ctx, f, lock, me); !errors.Is(err, context.Canceled) || holder(t, lock) != "me" {
		t.Errorf("the lease is %q's; %v", holder(t, lock), err)
	}
	close(answer)
	<-done
}

func TestALeaseOfAnotherIsNotGivenUp(t *testing.T) {
	for _, name := range []string{"me", ""} {
		lock := heldBy(t, "another")
		if err := HandOver(t.Context(), neverStalls(), lock, func() string { return name }); err != nil || holder(t, lock) != "another" {
			t.Errorf("to %q: the lease is %q's; %v", name, holder(t, lock), err)
		}
	}
}

// TestTheElectionTellsWhoThisProcessIs is run by client-go's own election, in the words of
// the version that is linked.
func TestTheElectionTellsWhoThisProcessIs(t *testing.T) {
	client := fake.NewClientset().CoordinationV1()
	elect := func(name string) (self *Identity, lock *resourcelock.LeaseLock, stop func()) {
		self = &Identity{EventRecorder: record.NewFakeRecorder(10)}
		lock = &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "lease"}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: name, EventRecorder: self}}
		if self.Name() != "" {
			t.Errorf("before it leads it is %q", self.Name())
		}
		ctx, cancel := context.WithCancel(t.Context())
		leads, stopped := make(chan struct{}), make(chan struct{})
		go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: time.Hour, RenewDeadline: time.Minute, RetryPeriod: 10 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(leads) }, OnStoppedLeading: func() { close(stopped) }},
		})
		select {
		case <-leads:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s does not lead", name)
		}
		return self, lock, func() { cancel(); <-stopped }
	}
	self, lock, stop := elect("host_1")
	if self.Name() != "host_1" {
		t.Fatalf("it leads, and is %q", self.Name())
	}
	stop() // as the fence stops it
	own := &resourcelock.LeaseLock{LeaseMeta: lock.LeaseMeta, Client: client}
	if err := HandOver(t.Context(), neverStalls(), own, self.Name); err != nil {
		t.Fatal(err)
	}
	next, _, stop := elect("host_2")
	defer stop()
	if next.Name() != "host_2" {
		t.Errorf("the next one is %q", next.Name())
	}
}
