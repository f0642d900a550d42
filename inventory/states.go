package inventory

// State is where in its life a machine is.
type State string

// The states of a machine.
const (
	StatePlanned     State = "planned"
	StateActive      State = "active"
	StateMaintenance State = "maintenance"
	StateOff         State = "off"
	StateRetired     State = "retired"
)
