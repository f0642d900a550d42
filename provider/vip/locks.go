package vip

import "sync"

// keyedLock is a lock for each key. Its zero value is ready.
type keyedLock[K comparable] struct {
	mu   sync.Mutex
	held map[K]*waiters
}

// waiters are those that hold or wait for the lock of a key.
type waiters struct {
	sync.Mutex
	n int
}

// lock locks a key, and returns what unlocks it.
func (l *keyedLock[K]) lock(k K) (unlock func()) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[K]*waiters{}
	}
	w := l.held[k]
	if w == nil {
		w = &waiters{}
		l.held[k] = w
	}
	w.n++
	l.mu.Unlock()
	w.Lock()
	return func() {
		w.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if w.n--; w.n == 0 {
			delete(l.held, k)
		}
	}
}
