package event

import (
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// Reports records an Event when a thing goes wrong with an object, or is worth a note, and nothing
// while it stays as it is: controllers come by often.
type Reports struct {
	recorder record.EventRecorder

	mu   sync.Mutex
	said map[report]string // the message
}

type report struct {
	uid    types.UID
	reason string
}

// NewReports returns Reports of which nothing is told yet.
func NewReports(recorder record.EventRecorder) *Reports {
	return &Reports{recorder: recorder, said: map[report]string{}}
}

// Warn records a Warning unless it was the last that was said for this reason.
func (r *Reports) Warn(obj object, reason, message string) {
	r.tell(obj, v1.EventTypeWarning, reason, message)
}

// Note records an Event of what is no fault unless it was the last that was said for this reason.
func (r *Reports) Note(obj object, reason, message string) {
	r.tell(obj, v1.EventTypeNormal, reason, message)
}

func (r *Reports) tell(obj object, kind, reason, message string) {
	key := report{obj.GetUID(), reason}
	r.mu.Lock()
	again := r.said[key] == message
	r.said[key] = message
	r.mu.Unlock()
	if !again {
		r.recorder.Event(obj, kind, reason, message)
	}
}

// Clear forgets a reason, so that the next time is told again, and reports whether it was said.
func (r *Reports) Clear(obj object, reason string) (said bool) {
	key := report{obj.GetUID(), reason}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, said = r.said[key]
	delete(r.said, key)
	return said
}

// Forget clears all reasons of an object that is gone.
func (r *Reports) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.said, func(key report, _ string) bool { return key.uid == uid })
}

// Open returns the number of reasons that are not cleared.
func (r *Reports) Open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.said)
}

// object is anything that Events stand on.
type object interface {
	runtime.Object
	GetUID() types.UID
}
