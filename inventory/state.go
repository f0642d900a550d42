package inventory

// gravity orders the states for graver.
var gravity = map[State]int{StateActive: 0, StatePlanned: 1, StateMaintenance: 2, StateOff: 3, StateRetired: 4}

// graver returns the state that limits a machine more.
func graver(a, b State) State {
	if gravity[b] > gravity[a] {
		return b
	}
	return a
}
