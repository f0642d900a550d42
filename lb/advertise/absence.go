package advertise

import "time"

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
	for _, machine := range machines {
		was, known := as[machine.Name]
		if known && was.back > 0 && now-was.back >= yields {
			delete(as, machine.Name)
			known = false
		}
		switch {
		case machine.Standing == Down && !known:
			as[machine.Name] = absence{since: now}
		case machine.Standing == Down:
			as[machine.Name] = absence{since: was.since}
		case machine.Standing == Up && known && was.back == 0:
			as[machine.Name] = absence{was.since, now}
			if since == 0 || was.since < since {
				since = was.since
			}
		}
	}
	return since
}
