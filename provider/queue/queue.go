package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

// How long a failed item waits until it is tried again.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Minute
)

// Queue is a work queue of names, and those who work on it.
type Queue struct {
	workqueue.TypedRateLimitingInterface[string]
	name string
	log  *slog.Logger
	sync func(ctx context.Context, name string) error
}

// New returns a queue for a controller. Its name is a label of metrics, and in the log.
func New(name string, log *slog.Logger, sync func(context.Context, string) error) *Queue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	return &Queue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{Name: name}),
		name:                       name,
		log:                        log,
		sync:                       sync,
	}
}

// Run has the items synced until ctx ends, and returns when nobody works on one any more. Those
// that are queued then are left.
func (q *Queue) Run(ctx context.Context, workers int) {
	var working sync.WaitGroup
	for range workers {
		working.Go(func() { wait.UntilWithContext(ctx, q.work, time.Second) })
	}
	<-ctx.Done()
	q.ShutDown()
	working.Wait()
}

func (q *Queue) work(ctx context.Context) {
	for ctx.Err() == nil {
		name, quit := q.Get()
		if quit {
			return
		}
		q.handle(ctx, name)
	}
}

func (q *Queue) handle(ctx context.Context, name string) {
	defer q.Done(name)
	err := q.sync(ctx, name)
	switch {
	case err == nil:
		q.Forget(name)
	case apierrors.IsConflict(err):
		q.AddRateLimited(name) // somebody was faster; the informer will show it in a moment
	default:
		q.log.Error("cannot reconcile; will retry", "queue", q.name, "key", name, "err", err)
		q.AddRateLimited(name)
	}
}
