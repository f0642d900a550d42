package inventory

// gravity orders the states for Graver.
var gravity = map[State]int{StateActive: 0, StatePlanned: 1, StateMaintenance: 2, StateOff: 3, StateRetired: 4}

// Graver returns the state that limits a machine more.
func Graver(a, b State) State {
	if gravity[b] > gravity[a] {
		return b
	}
	return a
}
