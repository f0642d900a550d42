package watch

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/agent/offers"
)

// store is an API server with one Service, whose etcd can be restored.
type store struct {
	mu      sync.Mutex
	version string
	service string
	watches []*watch.FakeWatcher
	since   []string // what each watch was to go on from
}

func (s *store) IsWatchListSemanticsUnSupported() bool { return true }

func (s *store) List(context.Context, metav1.ListOptions) (*corev1.ServiceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: s.version}, Items: []corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: s.service, ResourceVersion: s.version}},
	}}, nil
}

func (s *store) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := watch.NewFake()
	s.watches, s.since = append(s.watches, w), append(s.since, o.ResourceVersion)
	return w, nil
}

// restored puts another Service there, at another version, and ends the last watch, as
// an API server does that starts again.
func (s *store) restored(version, service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.service = version, service
	s.watches[len(s.watches)-1].Stop()
}

func (s *store) watched() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.since...)
}

func TestMirrorListsAnewWhenEtcdIsRestored(t *testing.T) {
	s := &store{version: "100", service: "lost"}
	var mu sync.Mutex
	m := newCache("services", &mu, offers.ServiceOf(nil), func() {})
	go follow(t.Context(), m, typed[*corev1.ServiceList](s), &corev1.Service{}, "", "")
	knows := func(name string, watches int) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for {
			mu.Lock()
			v, known := m.items["prod/"+name]
			n := len(m.items)
			mu.Unlock()
			if known && n == 1 && v.Key == (lb.ServiceKey{Namespace: "prod", Name: name}) && len(s.watched()) == watches {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("knows %d Services, %s is one: %v; watched from %v", n, name, known, s.watched())
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	knows("lost", 1)
	s.restored("50", "kept")
	knows("kept", 2)
	if from := s.watched()[1]; from != "50" {
		t.Errorf("it went on from %s", from)
	}
}

func TestMirrorTellsOnlyOfWhatIsNeeded(t *testing.T) {
	changes := 0
	m := newCache("nodes", &sync.Mutex{}, reduceOther, func() { changes++ })
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w2"}}
	steps := []struct {
		name string
		do   func()
		want int
	}{
		{"an empty list is news: it is the first", func() { _ = m.Replace(nil, "") }, 1},
		{"a Node", func() { _ = m.Add(n) }, 2},
		{"its heartbeat", func() {
			beat := n.DeepCopy()
			beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
			_ = m.Update(beat)
		}, 2},
		{"its pod CIDR", func() {
			changed := n.DeepCopy()
			changed.Spec.PodCIDRs = []string{"10.244.2.0/24"}
			_ = m.Update(changed)
		}, 3},
		{"its end", func() { _ = m.Delete(n) }, 4},
		{"its end again", func() { _ = m.Delete(n) }, 4},
	}
	for _, s := range steps {
		if s.do(); changes != s.want {
			t.Errorf("%s: %d changes told, want %d", s.name, changes, s.want)
		}
	}
}
