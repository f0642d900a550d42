package agent

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// saver writes to the state directory in goroutines of its own: the disk may hang, and
// nothing else may with it.
type saver struct {
	disk    disk
	inputs  newest[inputs]
	signs   newest[sign]
	last    version     // of the inputs that it was last given
	gone    atomic.Bool // the file that they were written to is not there any more
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newSaver() *saver { return &saver{inputs: newNewest[inputs](), signs: newNewest[sign]()} }

// start has what it is given written until stop is called, or ctx ends.
func (s *saver) start(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.running.Go(func() {
		s.inputs.each(ctx, func(in inputs) {
			s.writeInputs(in)
			pause(ctx, saveEvery)
		})
	})
	s.running.Go(func() { s.signs.each(ctx, s.writeSign) })
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
func (s *saver) save(in inputs) {
	if gone := s.gone.Swap(false); in.version == s.last && !gone {
		return
	}
	s.last = in.version
	s.inputs.put(in)
}

// forget has the next inputs written whichever they are.
func (s *saver) forget() { s.last = version{} }

// sign has a sign of life written.
func (s *saver) sign(last signs) { s.signs.put(s.disk.sign(last)) }

func (s *saver) writeInputs(in inputs) {
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
