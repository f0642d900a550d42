package disk

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"plinth.dev/plinth/provider/agent/latest"
	"plinth.dev/plinth/provider/agent/plan"
)

// saveEvery is how often at most inputs are written.
const saveEvery = time.Second

// Saver writes to the state directory in goroutines of its own: the disk may hang, and
// nothing else may with it.
type Saver struct {
	log     *slog.Logger
	Dir     Dir
	inputs  latest.Value[plan.Inputs]
	alive   latest.Value[alive]
	last    plan.Version // of the inputs that it was last given
	gone    atomic.Bool  // the file that they were written to is not there any more
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// NewSaver returns a saver that has no directory yet.
func NewSaver(log *slog.Logger) *Saver {
	return &Saver{log: log, inputs: latest.New[plan.Inputs](), alive: latest.New[alive]()}
}

// Start writes the inputs and signs of life that the saver is given, until [Saver.Finish] is called or ctx ends.
func (s *Saver) Start(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.running.Go(func() {
		s.inputs.Each(ctx, saveEvery, s.writeInputs)
	})
	s.running.Go(func() { s.alive.Each(ctx, 0, s.writeAlive) })
}

// Finish writes the state that the process after this one needs, the last of all: nothing older replaces it. What is nil is
// not written.
func (s *Saver) Finish(last *Handover, in *plan.Inputs) {
	s.cancel()
	s.running.Wait()
	if last != nil {
		s.writeAlive(s.Dir.alive(*last))
	}
	if in != nil {
		s.writeInputs(*in)
	}
}

// Save schedules a write of the inputs, unless they are those that it was given last and their file is still there. They are
// written at most once a second: what is lost between two is told again by the API
// server, or by the sessions' own routers.
func (s *Saver) Save(in plan.Inputs) {
	if gone := s.gone.Swap(false); in.Version == s.last && !gone {
		return
	}
	s.last = in.Version
	s.inputs.Put(in)
}

// Invalidate makes the next inputs be written whichever they are.
func (s *Saver) Invalidate() { s.last = plan.Version{} }

// WriteAlive schedules a write of a sign of life.
func (s *Saver) WriteAlive(last Handover) { s.alive.Put(s.Dir.alive(last)) }

func (s *Saver) writeInputs(in plan.Inputs) {
	if err := s.Dir.Save(in); err != nil {
		s.log.Warn("failed to save the state", "err", err)
	}
}

func (s *Saver) writeAlive(last alive) {
	if err := s.Dir.write(AliveFile, last); err != nil {
		s.log.Warn("failed to write the sign of life", "err", err)
	}
	if !s.Dir.last.isThere(s.Dir.dir) {
		if !s.gone.Swap(true) {
			s.log.Warn("found the saved state changed; writing it again", "folder", s.Dir.dir)
		}
	}
}
