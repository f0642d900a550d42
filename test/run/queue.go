package main

import (
	"cmp"
	"slices"
	"time"
)

// queue is the jobs of a stage that wait for a place to run in.
type queue struct {
	jobs    []job
	free    int             // places
	running map[string]bool // parts whose packages follow each other, and of which one runs
}

// newQueue has those first that take longest. Packages that follow each other count together.
func newQueue(jobs []job, places int) *queue {
	chains := map[string]time.Duration{}
	for _, j := range jobs {
		chains[j.part.name] += j.usual
	}
	long := func(j job) time.Duration {
		if j.part.places > 0 {
			return chains[j.part.name]
		}
		return j.usual
	}
	q := &queue{jobs: slices.Clone(jobs), free: places, running: map[string]bool{}}
	slices.SortStableFunc(q.jobs, func(a, b job) int { return cmp.Or(cmp.Compare(long(b), long(a)), cmp.Compare(b.usual, a.usual)) })
	return q
}

// next takes the first job that there are places for; false: there is none for now.
func (q *queue) next() (job, bool) {
	for i, j := range q.jobs {
		if max(1, j.part.places) > q.free || q.running[j.part.name] {
			continue
		}
		q.jobs = slices.Delete(q.jobs, i, i+1)
		q.free -= max(1, j.part.places)
		q.running[j.part.name] = j.part.places > 0
		return j, true
	}
	return job{}, false
}

// ended gives back what a job took.
func (q *queue) ended(j job) {
	q.free += max(1, j.part.places)
	delete(q.running, j.part.name)
}
