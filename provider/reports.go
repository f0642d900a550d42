package provider

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// reports records an Event when a thing goes wrong with an object, and nothing
// while it stays as it is: controllers come by often.
type reports struct {
	recorder record.EventRecorder

	mu   sync.Mutex
	said map[report]string // the message
}

type report struct {
	uid    types.UID
	reason string
}

func newReports(recorder record.EventRecorder) *reports {
	return &reports{recorder: recorder, said: map[report]string{}}
}

// warn records a Warning unless it was the last that was said for this reason.
func (r *reports) warn(obj object, reason, message string) {
	key := report{obj.GetUID(), reason}
	r.mu.Lock()
	again := r.said[key] == message
	r.said[key] = message
	r.mu.Unlock()
	if !again {
		r.recorder.Event(obj, v1.EventTypeWarning, reason, message)
	}
}

// settle forgets a reason, so that the next time is told again.
func (r *reports) settle(obj object, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.said, report{obj.GetUID(), reason})
}

// object is anything that Events stand on.
type object interface {
	runtime.Object
	GetUID() types.UID
}
