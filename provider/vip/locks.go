package vip

import "sync"

// keyedLock is a lock for each key. Its zero value is ready.
type keyedLock[K comparable] struct {
	mu   sync.Mutex
	held map[K]*waiters
}

// waiters are the goroutines that hold or wait for the lock of a key.
type waiters struct {
	sync.Mutex
	n int
}

// lock locks a key, and returns what unlocks it.
func (l *keyedLock[K]) lock(key K) (unlock func()) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[K]*waiters{}
	}
	waiting := l.held[key]
	if waiting == nil {
		waiting = &waiters{}
		l.held[key] = waiting
	}
	waiting.n++
	l.mu.Unlock()
	waiting.Lock()
	return func() {
		waiting.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if waiting.n--; waiting.n == 0 {
			delete(l.held, key)
		}
	}
}
