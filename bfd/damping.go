package bfd

import "time"

// Steady is the time that a path has to be up for its past losses to be forgotten.
const Steady = 30 * time.Second

const (
	firstHold = 2 * time.Second
	maxHold   = time.Minute
)

// Damping determines the time to wait before a lost path is used again. One that is lost now and then
// is used at once. From the second time on that it was up for less than [Steady] it is held
// back for 2 s, then 4, 8 and so on up to 60, and longer each time that it is lost meanwhile
// (RFC 5882, section 3.2). The zero value has seen no loss.
type Damping struct {
	flaps int // losses in a row, each after less than Steady, but for the first
}

// Lost observes a loss after so long a time up, and returns the time to hold back.
func (d *Damping) Lost(up time.Duration) time.Duration {
	if up >= Steady {
		d.flaps = 0
	}
	d.flaps++
	if d.flaps == 1 {
		return 0
	}
	return min(firstHold<<min(d.flaps-2, 10), maxHold)
}

// Flaps returns the number of losses in a row. Above 1 the path flaps.
func (d *Damping) Flaps() int { return d.flaps }
