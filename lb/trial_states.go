package lb

// TrialState is the state of a machine's sessions with a router whose new terms it tries.
type TrialState string

// The states of sessions on trial.
const (
	TrialUp         TrialState = "up"
	TrialDown       TrialState = "down"
	TrialDownBefore TrialState = "down as before" // they were down under the old terms, too
)
