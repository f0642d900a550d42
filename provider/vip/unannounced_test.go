package vip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"pgregory.net/rapid"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
)

// world is a Controller whose Service a holds an address, and what is known of announcements.
type world struct {
	*held
	at     time.Time
	events *record.FakeRecorder
	nobody []preview.Unannounced
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{held: newHeld(t), at: noon, events: record.NewFakeRecorder(100)}
	w.now = func() time.Time { return w.at }
	w.cluster.Recorder = w.events
	w.cluster.Unannounced = func(context.Context, map[lb.ServiceKey][]netip.Addr) ([]preview.Unannounced, error) {
		return w.nobody, nil
	}
	w.works("d/a")
	w.told()
	return w
}

// works reconciles a Service, which the informer then shows.
func (w *world) works(name string) {
	w.t.Helper()
	if err := w.reconcile(w.t.Context(), name); err != nil {
		w.t.Fatal(err)
	}
	_, name, _ = strings.Cut(name, "/")
	w.tells(w.lives(name))
}

// after has time pass, announcements reviewed, and the queue worked off. It returns how many
// Services were queued.
func (w *world) after(d time.Duration) (queued int) {
	w.t.Helper()
	w.at = w.at.Add(d)
	if _, err := w.reviewAnnouncements(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	for ; w.queue.Len() > 0; queued++ {
		name, _ := w.queue.Get()
		w.works(name)
		w.queue.Done(name)
	}
	return queued
}

// says is the condition of Service a; empty: it has none.
func (w *world) says() string {
	c := meta.FindStatusCondition(w.lives("a").Status.Conditions, lb.VIPAnnounced)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// told are the Events since it was asked last.
func (w *world) told() (all []string) {
	for len(w.events.Events) > 0 {
		all = append(all, <-w.events.Events)
	}
	return all
}

func (w *world) by(reason lb.Reason) []preview.Unannounced {
	return []preview.Unannounced{{Addr: w.addr, Services: []lb.ServiceKey{w.key(0)}, Reason: reason}}
}

func TestTheConditionIsWrittenOnlyWhenItIsFalseAndTakenOffAfter(t *testing.T) {
	w := newWorld(t)
	const disabled = "False PoolIsDisabled: nobody announces 192.0.2.0: its pool is disabled"
	const endpoints = "False NoEndpoint: nobody announces 192.0.2.0: its Service has no endpoint"
	for i, step := range []struct {
		after  time.Duration
		nobody []preview.Unannounced
		want   string
		queued int
		events []string
	}{
		{time.Minute, nil, "", 0, nil},
		{time.Second, w.by(lb.PoolIsDisabled), "", 0, nil},
		{9 * time.Second, w.by(lb.PoolIsDisabled), "", 0, nil},
		{time.Second, w.by(lb.PoolIsDisabled), disabled, 1, []string{"Warning PoolIsDisabled nobody announces 192.0.2.0: its pool is disabled"}},
		{time.Hour, w.by(lb.PoolIsDisabled), disabled, 0, nil},
		{time.Second, w.by(lb.NoEndpoint), disabled, 0, nil}, // another reason has to last, too
		{10 * time.Second, w.by(lb.NoEndpoint), endpoints, 1, []string{"Warning NoEndpoint nobody announces 192.0.2.0: its Service has no endpoint"}},
		{time.Second, nil, "", 1, []string{"Normal VIPAnnounced all VIPs are announced again"}},
		{time.Hour, nil, "", 0, nil},
		{time.Second, w.by(lb.NoSessionUp), "", 0, nil},
		{89 * time.Second, w.by(lb.NoSessionUp), "", 0, nil}, // routers keep its routes meanwhile
		{time.Second, w.by(lb.NoSessionUp), "False NoSessionUp: nobody announces 192.0.2.0: no machine that is to announce it has a session up that carries its family", 1,
			[]string{"Warning NoSessionUp nobody announces 192.0.2.0: no machine that is to announce it has a session up that carries its family"}},
	} {
		w.nobody = step.nobody
		if queued := w.after(step.after); queued != step.queued || w.says() != step.want {
			t.Errorf("step %d: %d Services were written, and it says %q; want %d and %q", i, queued, w.says(), step.queued, step.want)
		}
		if told := w.told(); !slices.Equal(told, step.events) {
			t.Errorf("step %d: told %q, want %q", i, told, step.events)
		}
	}
	if n := series(t, vipCollector{w.Controller}, "plinth_vips_unannounced"); !slices.Equal(n, []string{"plinth_vips_unannounced{reason=NoSessionUp} 1"}) {
		t.Errorf("counted: %v", n)
	}
}

func TestAnEndpointThatIsBackSoonWritesNothing(t *testing.T) {
	w := newWorld(t)
	for range 100 {
		w.nobody = w.by(lb.NoEndpoint)
		for range 3 {
			if n := w.after(3 * time.Second); n != 0 {
				t.Fatal("it is told of an endpoint that is not away for ten seconds")
			}
		}
		w.nobody = nil
		if n := w.after(time.Second); n != 0 || w.says() != "" {
			t.Fatalf("%d writes, %s", n, w.says())
		}
	}
	if n := series(t, vipCollector{w.Controller}, "plinth_vips_unannounced"); n != nil {
		t.Errorf("counted: %v", n)
	}
}

// leads begins anew, as another process does that comes to lead.
func (w *world) leads() { w.announcements = announcements{} }

func TestALeaderThatBeginsWritesNothingAgain(t *testing.T) {
	w := newWorld(t)
	w.nobody = w.by(lb.PoolIsDisabled)
	w.after(0)
	w.after(10 * time.Second)
	before := w.lives("a")
	w.told()
	w.leads()
	w.works("d/a") // before it knows anything of announcements
	for range 4 {
		if n := w.after(5 * time.Second); n != 0 {
			t.Errorf("%d writes", n)
		}
	}
	now := w.lives("a")
	if c := meta.FindStatusCondition(now.Status.Conditions, lb.VIPAnnounced); c == nil || *c != *meta.FindStatusCondition(before.Status.Conditions, lb.VIPAnnounced) {
		t.Errorf("it says %v now, before %v", now.Status.Conditions, before.Status.Conditions)
	}
	if told := w.told(); len(told) > 0 {
		t.Errorf("told again: %q", told)
	}
}

func TestWhatAnEarlierLeaderSaidIsTakenOff(t *testing.T) {
	w := newWorld(t)
	w.nobody = w.by(lb.PoolIsDisabled)
	w.after(0)
	w.after(10 * time.Second)
	w.leads()
	if w.works("d/a"); w.says() == "" {
		t.Error("it is taken off before it is known whether it is so")
	}
	w.nobody = nil
	if n := w.after(time.Second); n != 1 || w.says() != "" {
		t.Errorf("%d writes, and it says %q", n, w.says())
	}
}

func TestBothConditionsGoWithTheVIP(t *testing.T) {
	w := newWorld(t)
	w.nobody = w.by(lb.PoolIsDisabled)
	w.after(0)
	w.after(10 * time.Second)
	svc := w.lives("a")
	svc.Spec.Type = v1.ServiceTypeClusterIP
	w.tells(svc)
	if w.works("d/a"); len(w.lives("a").Status.Conditions) > 0 {
		t.Errorf("it is no load balancer any more, and says %v", w.lives("a").Status.Conditions)
	}
}

func TestSomebodyElsesEditOfTheConditionIsRepaired(t *testing.T) {
	w := newWorld(t)
	w.nobody = w.by(lb.PoolIsDisabled)
	w.after(0)
	w.after(10 * time.Second)
	want, svc := w.says(), w.lives("a")
	meta.RemoveStatusCondition(&svc.Status.Conditions, lb.VIPAnnounced)
	w.tells(svc)
	if n := w.after(time.Minute); n != 1 || w.says() != want {
		t.Errorf("%d writes, and it says %q", n, w.says())
	}
}

// TestThousandsThatLoseTheirEndpointsAtOnceAreToldInTurn also has each of them told in the end.
func TestThousandsThatLoseTheirEndpointsAtOnceAreToldInTurn(t *testing.T) {
	w := newWorld(t)
	const services = 3000
	for i := range services {
		svc := loadBalancerService(func(svc *v1.Service) { svc.Name, svc.UID = fmt.Sprint("s", i), types.UID(fmt.Sprint(i)) })
		if err := w.known.Add(svc); err != nil {
			t.Fatal(err)
		}
		w.nobody = append(w.nobody, preview.Unannounced{
			Addr: netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}), Services: []lb.ServiceKey{keyOf(svc)}, Reason: lb.NoEndpoint,
		})
	}
	reviews, queued := 0, map[string]bool{}
	next, err := w.reviewAnnouncements(t.Context())
	if err != nil || next != 10*time.Second || w.queue.Len() > 0 {
		t.Fatalf("next in %v, %d are queued, %v", next, w.queue.Len(), err)
	}
	w.at = w.at.Add(next)
	w.queue.Add("d/a")
	if _, err = w.reviewAnnouncements(t.Context()); err != nil || w.queue.Len() != 1+tellWhenBusy {
		t.Fatalf("a Service waits, and %d are queued to be told; %v", w.queue.Len()-1, err)
	}
	for next = 1; w.queue.Len() > 0; { // these are written in a moment
		name, _ := w.queue.Get()
		w.queue.Done(name)
	}
	for ; next > 0 && reviews < 100; reviews++ {
		if next, err = w.reviewAnnouncements(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := w.queue.Len(); n > tellAtOnce {
			t.Fatalf("%d Services are queued at once", n)
		}
		for w.queue.Len() > 0 { // and their statuses are written
			name, _ := w.queue.Get()
			queued[name] = true
			_, short, _ := strings.Cut(name, "/")
			svc := w.service(lb.ServiceKey{Namespace: "d", Name: short}).DeepCopy()
			svc.Status.Conditions = []metav1.Condition{announcedPatch(svc, w.announcements.said(keyOf(svc)), w.at).(metav1.Condition)}
			if err := w.known.Update(svc); err != nil {
				t.Fatal(err)
			}
			w.queue.Done(name)
		}
	}
	if len(queued) != services || reviews < services/tellAtOnce {
		t.Errorf("%d Services are told in %d reviews", len(queued), reviews)
	}
}

func TestAServiceIsToldOfEachOfItsVIPs(t *testing.T) {
	var a announcements
	k := lb.ServiceKey{Namespace: "d", Name: "a"}
	all := []preview.Unannounced{
		{Addr: netip.MustParseAddr("192.0.2.1"), Services: []lb.ServiceKey{k}, Reason: lb.VIPOutsidePools, Others: []lb.Reason{lb.MachineNotActive}},
		{Addr: netip.MustParseAddr("2001:db8::1"), Services: []lb.ServiceKey{k, {Namespace: "d", Name: "b"}}, Reason: lb.NoEndpoint},
	}
	a.observe(noon, all[:1])
	a.observe(noon.Add(10*time.Second), all)
	if got := a.said(k); got.reason != lb.VIPOutsidePools || strings.Contains(got.message, "2001") {
		t.Errorf("the second has not been so for long: %+v", got)
	}
	if next := a.observe(noon.Add(11*time.Second), all); next != 9*time.Second {
		t.Errorf("the second is to be told in %v", next)
	}
	a.observe(noon.Add(20*time.Second), all)
	want := announcement{known: true, reason: lb.VIPOutsidePools,
		message: "nobody announces 192.0.2.1: no pool has it; other machines say MachineNotActive; nobody announces 2001:db8::1: its Service has no endpoint"}
	if got := a.said(k); got != want {
		t.Errorf("%+v", got)
	}
}

// TestNobodyIsToldSoonerThanItIsSoForLong draws times at which VIPs are announced and are not.
func TestNobodyIsToldSoonerThanItIsSoForLong(t *testing.T) {
	k, vip := lb.ServiceKey{Namespace: "d", Name: "a"}, netip.MustParseAddr("192.0.2.1")
	reasons := []lb.Reason{"", lb.NoEndpoint, lb.MachineNotActive, lb.NoSessionUp}
	rapid.Check(t, func(t *rapid.T) {
		var a announcements
		now, since, changes, last := noon, time.Time{}, 0, announcement{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			reason := rapid.SampledFrom(reasons).Draw(t, "reason")
			var all []preview.Unannounced
			if reason == "" {
				since = time.Time{}
			} else if all = []preview.Unannounced{{Addr: vip, Services: []lb.ServiceKey{k}, Reason: reason}}; since.IsZero() {
				since = now
			}
			next := a.observe(now, all)
			said := a.said(k)
			switch {
			case reason == "" && said != (announcement{known: true}):
				t.Fatalf("it is announced, and told is %+v", said)
			case said.reason != "" && now.Sub(since) < unannouncedFor:
				t.Fatalf("after %v it is told %+v", now.Sub(since), said)
			case reason != "" && said.reason != reason && (next <= 0 || next > sessionFor):
				t.Fatalf("%s is to be told in %v, told is %+v", reason, next, said)
			case reason != "" && reason != lb.NoSessionUp && said.reason == "" && now.Sub(since) >= unannouncedFor:
				t.Fatalf("after %v nothing is told", now.Sub(since))
			}
			if said.known && said != last {
				changes, last = changes+1, said
			}
		}
		if most := 2 + int(2*now.Sub(noon)/unannouncedFor); changes > most {
			t.Fatalf("%d changes in %v", changes, now.Sub(noon))
		}
	})
}

func TestReviewsTakeASmallShareOfTheTime(t *testing.T) {
	for _, tt := range []struct {
		took time.Duration
		err  error
		want time.Duration
	}{
		{time.Millisecond, nil, reviewEvery},
		{time.Second, nil, 10 * time.Second},
		{9 * time.Second, nil, reviewLatest}, // it waited for informers
		{10 * time.Second, errors.New("services are not known yet"), reviewEvery},
	} {
		if got := pauseAfter(tt.took, tt.err, reviewEvery); got != tt.want {
			t.Errorf("after %v (%v): %v, want %v", tt.took, tt.err, got, tt.want)
		}
	}
}

func TestAReviewFollowsAChange(t *testing.T) {
	w := newWorld(t)
	reviews := make(chan int)
	n := 0
	w.reviewEvery = time.Millisecond
	<-w.announcementsChanged // since the Service got its VIP
	w.cluster.Unannounced = func(ctx context.Context, held map[lb.ServiceKey][]netip.Addr) ([]preview.Unannounced, error) {
		if got := held[w.key(0)]; !slices.Equal(got, []netip.Addr{w.addr}) {
			t.Errorf("held is %v", held)
		}
		n++
		select {
		case reviews <- n:
		case <-ctx.Done():
		}
		return nil, errors.New("the informers are not there yet")
	}
	go w.followAnnouncements(t.Context())
	<-reviews // at the start
	for range 3 {
		w.AnnouncementsChanged()
		select {
		case <-reviews:
		case <-time.After(10 * time.Second):
			t.Fatal("nothing is reviewed")
		}
	}
	select {
	case <-reviews:
		t.Error("nothing has changed, and it is reviewed")
	case <-time.After(50 * time.Millisecond):
	}
}

func TestWhoElseHasAVIPIsToldWithoutWaitingForTheNextReview(t *testing.T) {
	w := newWorld(t)
	for len(w.announcementsChanged) > 0 {
		<-w.announcementsChanged
	}
	began := time.Now()
	ended := make(chan struct{})
	go func() {
		w.pauseReviews(t.Context(), time.Hour, 0)
		close(ended)
	}()
	w.AnnouncementsDisputed()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for the next review")
	}
	if took := time.Since(began); took < reviewDisputed {
		t.Errorf("it is looked again after %v", took)
	}
}
