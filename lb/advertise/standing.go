package advertise

// Standing is the state of another machine of the subnet, as a machine knows it.
type Standing int

// The standings. The zero value is that of a machine of which nothing is known yet.
const (
	Unheard Standing = iota // too early to say
	Down                    // silent for the detection time, or it has ended its session for good
	Up
	Leaving // it is up and asks that others own: Concatenated Path Down (RFC 5880, section 6.8.17)
	Holding // its agent is away for a moment, and its kernel answers: what it owns stays its own
)

func (s Standing) String() string {
	return [...]string{"unheard", "down", "up", "leaving", "holding"}[s]
}

// Witness is the known state of a subnet's witness: the host by which a machine that is alone on its subnet
// is distinguished from one that is cut off.
type Witness int

// The states of a witness.
const (
	NoWitness Witness = iota // the subnet has none
	WitnessSilent
	WitnessAnswers
)

func (w Witness) String() string {
	return [...]string{"none", "silent", "answers"}[w]
}
