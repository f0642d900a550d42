package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/kubelet"
	"plinth.dev/plinth/test/lab/netns"
	"plinth.dev/plinth/wait"
)

// On a real node the program of a pod has exited, and its network is gone, before
// anybody else knows: whoever announces a machine by its endpoints acts on old news.
func TestAPodOfTheLabHasEndedBeforeTheAPIServerKnows(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "ending", 1)
	pods, err := l.Pods(t.Context(), "ending")
	must(t, err)
	pod := pods[0]
	must(t, l.AnnotatePod(t.Context(), pod.Name, kubelet.LingerAnnotation, "3s"))
	told := podStates(t, l, pod.Name)
	asked := time.Now()
	must(t, l.Kube.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))

	ended := namespaceGone(t, l.PodNamespace(pod.Spec.NodeName, pod.Namespace, pod.Name))
	if served := ended.Sub(asked); served < 3*time.Second {
		t.Errorf("the pod served on for %s, want 3 s", served)
	}
	var states []string
	for s := range told {
		states = append(states, s.what)
		if s.what == "ended" && s.at.Before(ended) {
			t.Errorf("the API server was told %s before the pod's namespace was gone", ended.Sub(s.at))
		}
	}
	if want := []string{"runs", "terminates", "ended", "gone"}; !slices.Equal(states, want) {
		t.Errorf("the Pod's states: %q, want %q", states, want)
	}
}

// namespaceGone waits for the end of a network namespace and returns when that was.
func namespaceGone(t *testing.T, name string) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, wait.Until(ctx, 5*time.Millisecond, func(context.Context) error {
		if netns.Exists(name) {
			return fmt.Errorf("%s is still there", name)
		}
		return nil
	}))
	return time.Now()
}

type podState struct {
	what string // "runs", "terminates", "ended" or "gone"
	at   time.Time
}

// podStates sends each state of a pod as the API server hears of it, and ends with "gone".
func podStates(t *testing.T, l *lab.Lab, name string) <-chan podState {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	w, err := l.Kube.CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	must(t, err)
	states := make(chan podState, 100)
	go func() {
		defer close(states)
		defer w.Stop()
		for last := ""; last != "gone"; {
			e, more := <-w.ResultChan()
			if !more {
				return
			}
			if s := stateOf(e); s != last {
				states <- podState{s, time.Now()}
				last = s
			}
		}
	}()
	return states
}

func stateOf(e watch.Event) string {
	p, ok := e.Object.(*corev1.Pod)
	switch {
	case !ok:
		return fmt.Sprintf("%v: %v", e.Type, e.Object)
	case e.Type == watch.Deleted:
		return "gone"
	case p.Status.Phase == corev1.PodSucceeded:
		return "ended"
	case p.DeletionTimestamp != nil:
		return "terminates"
	}
	return "runs"
}
