package source

import (
	"errors"
	"time"
)

// pace delays repeated writes of the same content (backoff): after a write that failed, or where
// another program changes or deletes what was written. Its zero value has seen no write.
type pace struct {
	content string // of the last write, be it done or not
	at      time.Time
	pause   time.Duration // until the same content is written again
	why     error         // of the pause; nil: the last write was done, and was the first of its content
}

// heldError means that a write is delayed, since the same was just tried; it wraps the reason of the pause.
type heldError struct {
	error
	until time.Time
}

// Unwrap returns the reason of the pause.
func (e *heldError) Unwrap() error { return e.error }

var errOverwritten = errors.New("what was stored was changed or deleted by somebody else, again and again: it is stored again after pauses; see which program writes the ConfigMaps labelled " + LabelAccepted)

// hold returns a [heldError] where the content must not be written yet.
func (p *pace) hold(content string, now time.Time) error {
	until := p.at.Add(p.pause)
	if content != p.content || p.why == nil || !now.Before(until) {
		return nil
	}
	return &heldError{p.why, until}
}

// note records the outcome of a write. The same content may be written twice in a row without a pause, since
// stored content may be deleted once; one that stood for a while counts as the first again.
func (p *pace) note(content string, now time.Time, err error) {
	again, wasDone := content == p.content, p.why == nil || errors.Is(p.why, errOverwritten)
	stood := now.Sub(p.at) > p.pause+lastRetry
	switch {
	case err != nil && (!again || wasDone):
		p.pause, p.why = firstRetry, err
	case err != nil:
		p.pause, p.why = min(2*p.pause, lastRetry), err
	case again && wasDone && !stood:
		p.pause, p.why = min(max(2*p.pause, firstRetry), lastRetry), errOverwritten
	default:
		p.pause, p.why = 0, nil
	}
	p.content, p.at = content, now
}

// The pauses between a failed write and the next one.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)
