package advertise

import (
	"cmp"
	"maps"
	"time"
)

// absences holds the machines of a segment that are down, or were a moment ago, by name.
type absences map[string]absence

// absence is since when a machine is down, and is up again; 0: it is not.
type absence struct{ since, back time.Duration }

// isDown reports whether a machine is down.
func (as absences) isDown(machine string) bool {
	return as[machine].since != 0 && as[machine].back == 0
}

// observe returns since when machines that are up again were down, the earliest; 0: there are none. They may not
// have heard what this machine claimed meanwhile, nor what it tells one that is soon down again.
func (as absences) observe(now time.Duration, machines []Neighbor) (since time.Duration) {
	maps.DeleteFunc(as, func(_ string, was absence) bool { return was.back > 0 && now-was.back >= yields })
	for _, machine := range machines {
		switch was := as[machine.Name]; {
		case machine.Standing == Down:
			as[machine.Name] = absence{since: cmp.Or(was.since, now)}
		case machine.Standing == Up && as.isDown(machine.Name):
			as[machine.Name] = absence{was.since, now}
			if since == 0 || was.since < since {
				since = was.since
			}
		}
	}
	return since
}
