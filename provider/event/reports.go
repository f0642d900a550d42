package event

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// Reports records an Event when a thing goes wrong with an object, and nothing
// while it stays as it is: controllers come by often.
type Reports struct {
	recorder record.EventRecorder

	mu   sync.Mutex
	said map[types.UID]map[string]string // messages by reason
}

// NewReports returns Reports of which nothing is told yet.
func NewReports(recorder record.EventRecorder) *Reports {
	return &Reports{recorder: recorder, said: map[types.UID]map[string]string{}}
}

// Warn records a Warning unless it was the last that was said for this reason.
func (r *Reports) Warn(obj object, reason, message string) {
	r.mu.Lock()
	said := r.said[obj.GetUID()]
	if said == nil {
		said = map[string]string{}
		r.said[obj.GetUID()] = said
	}
	again := said[reason] == message
	said[reason] = message
	r.mu.Unlock()
	if !again {
		r.recorder.Event(obj, v1.EventTypeWarning, reason, message)
	}
}

// Clear forgets a reason, so that the next time is told again.
func (r *Reports) Clear(obj object, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if said := r.said[obj.GetUID()]; said != nil {
		if delete(said, reason); len(said) == 0 {
			delete(r.said, obj.GetUID())
		}
	}
}

// Forget clears all reasons of an object that is gone.
func (r *Reports) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.said, uid)
}

// Open returns how many warnings are not cleared.
func (r *Reports) Open() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, said := range r.said {
		n += len(said)
	}
	return n
}

// object is anything that Events stand on.
type object interface {
	runtime.Object
	GetUID() types.UID
}
