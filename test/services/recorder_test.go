package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// recorder keeps every change of Services and IPAddress objects. It never lists a second
// time, by which it would miss what was between: a watch that breaks off goes on behind the
// last version that it told, and where it cannot, the recorder is blind and says so.
type recorder struct {
	client kubernetes.Interface
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	events []event
	blind  error
}

// record has a recorder keep what happens from now on.
func (c *cluster) record() *recorder {
	c.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &recorder{client: c.Client, stop: stop}
	c.t.Cleanup(stop)
	services, err1 := c.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	addresses, err2 := c.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2); err != nil {
		c.t.Fatal(err)
	}
	for i := range services.Items {
		r.keep(watch.Event{Type: watch.Added, Object: &services.Items[i]})
	}
	for i := range addresses.Items {
		r.keep(watch.Event{Type: watch.Added, Object: &addresses.Items[i]})
	}
	r.follow(ctx, c.t, "services", services.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return c.Client.CoreV1().Services("").Watch(ctx, o)
	})
	r.follow(ctx, c.t, "ipaddresses", addresses.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return c.Client.NetworkingV1().IPAddresses().Watch(ctx, o)
	})
	return r
}

func (r *recorder) follow(ctx context.Context, t testing.TB, kind, version string, open cache.WatchFuncWithContext) {
	t.Helper()
	w, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: open})
	if err != nil {
		t.Fatal(err)
	}
	r.done.Go(func() {
		var latest uint64
		for told := range w.ResultChan() {
			if told.Type == watch.Bookmark {
				continue
			}
			version := r.keep(told)
			if version <= latest {
				r.fail(fmt.Errorf("the watch of %s told of version %d after %d", kind, version, latest))
			}
			latest = version
		}
		if ctx.Err() == nil {
			r.fail(fmt.Errorf("the watch of %s ended", kind))
		}
	})
}

// keep keeps what a watch or a list told, and returns its version.
func (r *recorder) keep(told watch.Event) (version uint64) {
	e, err := eventOf(told, time.Now())
	if err != nil {
		r.fail(err)
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	return e.version
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blind = errors.Join(r.blind, err)
}

// caughtUp waits until the watches have told all that has happened so far, which they have
// once they tell of a change that is made now.
func (c *cluster) caughtUp(r *recorder) {
	c.t.Helper()
	mark := "recorder-" + fmt.Sprint(time.Now().UnixNano())
	svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: mark, Namespace: "default"}, Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}}}
	address := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "203.0.113.255"}, Spec: networkingv1.IPAddressSpec{
		ParentRef: &networkingv1.ParentReference{Group: "example.com", Resource: "marks", Name: mark}}}
	made, err1 := c.Client.CoreV1().Services("default").Create(c.t.Context(), svc, metav1.CreateOptions{})
	claimed, err2 := c.Client.NetworkingV1().IPAddresses().Create(c.t.Context(), address, metav1.CreateOptions{})
	if err := errors.Join(err1, err2); err != nil {
		c.t.Fatal(err)
	}
	err1 = c.Client.CoreV1().Services("default").Delete(c.t.Context(), mark, metav1.DeleteOptions{})
	err2 = c.Client.NetworkingV1().IPAddresses().Delete(c.t.Context(), address.Name, metav1.DeleteOptions{})
	if err := errors.Join(err1, err2); err != nil {
		c.t.Fatal(err)
	}
	c.Eventually(20*time.Second, "the recorder has caught up", func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		has := func(version string) bool {
			return slices.ContainsFunc(r.events, func(e event) bool {
				return e.service != nil && e.service.ResourceVersion == version || e.address != nil && e.address.ResourceVersion == version
			})
		}
		if r.blind == nil && !(has(made.ResourceVersion) && has(claimed.ResourceVersion)) {
			return fmt.Errorf("it was told %d events", len(r.events))
		}
		return nil
	})
}

// seen returns all events so far, in the order of etcd.
func (c *cluster) seen(r *recorder) []event {
	c.t.Helper()
	c.caughtUp(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	return inOrder(r.events)
}

// judged stops a recorder and fails the test if a law was broken, or it did not see all. Laws
// that are not promised here are named by how their violations begin.
func (c *cluster) judged(r *recorder, notPromised ...string) {
	c.t.Helper()
	events := c.seen(r)
	r.stop()
	r.done.Wait()
	if r.blind != nil {
		c.t.Error("the recorder did not see all: ", r.blind)
	}
	h := replay(events)
	h.violations = slices.DeleteFunc(h.violations, func(v violation) bool {
		return slices.ContainsFunc(notPromised, func(law string) bool { return strings.HasPrefix(v.text, law+":") })
	})
	if len(h.violations) > 0 {
		c.t.Logf("with -artifacts all is kept in %s", save(c.t, events))
	}
	for i, x := range h.violations {
		if i == 10 {
			c.t.Errorf("and %d more", len(h.violations)-i)
			break
		}
		c.t.Errorf("%s", x.text)
		for _, e := range events {
			if e.version <= x.version && e.concerns(x.subjects) {
				c.t.Log("  ", e)
			}
		}
	}
}

// save writes events into a file.
func save(t testing.TB, events []event) (file string) {
	t.Helper()
	var text strings.Builder
	for _, e := range events {
		fmt.Fprintln(&text, e)
	}
	file = filepath.Join(t.ArtifactDir(), "history.txt")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
