package agent

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"plinth.dev/plinth/provider/agent/latest"
	"plinth.dev/plinth/provider/agent/plan"
)

// saver writes to the state directory in goroutines of its own: the disk may hang, and
// nothing else may with it.
type saver struct {
	disk    disk
	inputs  latest.Value[plan.Inputs]
	signs   latest.Value[sign]
	last    plan.Version // of the inputs that it was last given
	gone    atomic.Bool  // the file that they were written to is not there any more
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newSaver() *saver { return &saver{inputs: latest.New[plan.Inputs](), signs: latest.New[sign]()} }

// start has what it is given written until stop is called, or ctx ends.
func (s *saver) start(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.running.Go(func() {
		s.inputs.Each(ctx, saveEvery, s.writeInputs)
	})
	s.running.Go(func() { s.signs.Each(ctx, 0, s.writeSign) })
}

// stop returns when nothing is being written any more. What is written directly from then
// on is not replaced by anything older.
func (s *saver) stop() {
	s.cancel()
	s.running.Wait()
}

// save has the inputs written, unless they are those that it was given last and their file is still there. They are
// written at most once a second: what is lost between two is told again by the API
// server, or by the sessions' own routers.
func (s *saver) save(in plan.Inputs) {
	if gone := s.gone.Swap(false); in.Version == s.last && !gone {
		return
	}
	s.last = in.Version
	s.inputs.Put(in)
}

// forget has the next inputs written whichever they are.
func (s *saver) forget() { s.last = plan.Version{} }

// sign has a sign of life written.
func (s *saver) sign(last signs) { s.signs.Put(s.disk.sign(last)) }

func (s *saver) writeInputs(in plan.Inputs) {
	if err := s.disk.save(in); err != nil {
		slog.Warn("the state was not saved", "err", err)
	}
}

func (s *saver) writeSign(last sign) {
	if err := s.disk.alive(last); err != nil {
		slog.Warn("no sign of life on disk", "err", err)
	}
	if !s.disk.last.isThere(s.disk.dir) {
		if !s.gone.Swap(true) {
			slog.Warn("the saved state is not what was written: it is written again", "folder", s.disk.dir)
		}
	}
}
