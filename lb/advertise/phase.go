package advertise

// tenurePhase is the phase of a machine's tenure of one VIP; a tenure is in one phase at a time.
type tenurePhase string

// The phases. The machine answers in owning and yielding.
const (
	released  tenurePhase = "released"  // no machine is to own the VIP, another one was found to answer, or the tenure is new
	following tenurePhase = "following" // another machine owns the VIP
	waiting   tenurePhase = "waiting"   // the machine is to own the VIP, and another one may still answer
	owning    tenurePhase = "owning"    // the machine owns the VIP
	yielding  tenurePhase = "yielding"  // another machine is to own the VIP, and this one answers until it does
)

// answers reports whether the machine answers for the VIP.
func (p tenurePhase) answers() bool { return p == owning || p == yielding }

// occurrence is an event that moves a tenure from one phase to another.
type occurrence int

// The occurrences.
const (
	vipReleased  occurrence = iota // no machine is to own the VIP, or another one answers
	otherOwns                      // another machine is to own the VIP
	ownerWaits                     // the machine is to own the VIP, and may not answer yet
	ownerAnswers                   // the machine is to own the VIP, and answers
)

// transitions holds the next phase of each phase after each occurrence. Only a machine that owned a VIP yields it.
var transitions = map[tenurePhase]map[occurrence]tenurePhase{
	released:  {vipReleased: released, otherOwns: following, ownerWaits: waiting, ownerAnswers: owning},
	following: {vipReleased: released, otherOwns: following, ownerWaits: waiting, ownerAnswers: owning},
	waiting:   {vipReleased: released, otherOwns: following, ownerWaits: waiting, ownerAnswers: owning},
	owning:    {vipReleased: released, otherOwns: yielding, ownerWaits: waiting, ownerAnswers: owning},
	yielding:  {vipReleased: released, otherOwns: yielding, ownerWaits: waiting, ownerAnswers: owning},
}

// move changes the phase as an occurrence demands.
func (p *tenurePhase) move(o occurrence) { *p = transitions[*p][o] }
