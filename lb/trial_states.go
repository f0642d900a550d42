package lb

// TrialState is the state of a machine's sessions with a router whose new terms it tries.
type TrialState string

// What an agent says of sessions that it tries.
const (
	TrialUp         TrialState = "up"
	TrialDown       TrialState = "down"
	TrialDownBefore TrialState = "down as before" // they were down under the old terms, too
)
