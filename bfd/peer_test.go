package bfd

import (
	"fmt"
	"testing"
	"time"

	"plinth.dev/plinth/wait"
)

// peer is the other end of a session, played by the test.
type peer struct {
	t     *testing.T
	s     *Session
	hears func() packet // receives a packet
	says  func(packet)  // sends one
	*detector
}

// answer receives a packet and sends one.
func (r *peer) answer() packet {
	r.t.Helper()
	p := r.hears()
	r.hear(p, time.Now())
	r.says(r.next(p.poll))
	return p
}

// comesUp brings up both ends: the session is up from the moment when its peer says that it begins.
func (r *peer) comesUp() {
	r.t.Helper()
	r.s.Begin()
	for st := r.s.Status(); st.State != Up || st.Peer != Up || r.poll; st = r.s.Status() {
		r.answer()
	}
}

// read reads a packet that a session sent.
func read(t *testing.T, data []byte) packet {
	t.Helper()
	p, ok := parse(data)
	if !ok {
		t.Fatalf("%x", data)
	}
	return p
}

// eventually waits for a session to be as it should.
func eventually(t *testing.T, s *Session, what string, ok func(Status) bool) {
	t.Helper()
	wait.True(t, 20*time.Second, time.Millisecond, what, func() (bool, string) {
		now := s.Status()
		return ok(now), fmt.Sprintf("%+v", now)
	})
}
