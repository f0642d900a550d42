package edit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// Proposal is an edit as it is decided on.
type Proposal struct {
	Documents []document.Document
	Content   string             // names what the documents say: an edit that was refused is known by it again
	Allowance Allowance          // what it may take away, whatever the inventory in force says
	Problems  inventory.Problems // of where the documents were found; with an error among them it is refused
	// Mislabelled has an error for each place of the documents that says another name than the inventory's.
	Mislabelled func(name string) inventory.Problems
}

// Refusal is an edit that was refused for what it takes away. Its zero value is none.
type Refusal struct{ Content, Digest string }

// ParseRefusal parses the output of [Refusal.String]; any other text is the zero Refusal.
func ParseRefusal(text string) Refusal {
	content, digest, both := strings.Cut(text, " ")
	if !both {
		return Refusal{}
	}
	return Refusal{content, digest}
}

// String is the content and the digest, or empty.
func (r Refusal) String() string {
	if r == (Refusal{}) {
		return ""
	}
	return r.Content + " " + r.Digest
}

// Evidence holds the facts that a decision depends on besides the edit and the inventory in force. The functions, which query the
// cluster, are called only where the answer counts; their error means that the fact is not known now.
type Evidence struct {
	// Known is the part of the inventory in force that is known, where not all of it can be read; else it is the same.
	Known *inventory.Inventory
	// Whole: the inventory in force is known as it was accepted.
	Whole    bool
	Losses   func(next *inventory.Inventory) (Losses, error)             // of the cluster; nil: none are known of
	Storable func(next *inventory.Inventory) inventory.Problems          // why it cannot be stored
	Refusal  func() (Refusal, error)                                     // the last one
	Agents   func() (map[string]Agent, error)                            // by the machine's name; nil: nothing is tried
	Running  func(next *inventory.Inventory) (t Trial, mine, found bool) // the trial of the same that is stored, and whether this process began it
	Silent   []string                                                    // Nodes that were to try the edit, and reported nothing
	Now      time.Time
}

// Verdict is the decision on an edit.
type Verdict struct {
	Phase    Phase // Refused, OnTrial or Allowed
	Next     *inventory.Inventory
	Problems inventory.Problems
	Digest   string   // of the losses for which it is refused; empty: for none
	Trial    Trial    // of one that is on trial; without an ID it has to begin
	CameUp   []string // the Nodes whose trial ended well
	Silent   []string // see [Evidence]
}

// Decide returns the verdict on an edit. Its error is one of the evidence: the edit stays pending, and is decided on again.
func Decide(proposal Proposal, inForce *inventory.Inventory, evidence Evidence) (Verdict, error) {
	next, problems := proposal.read(evidence.Known)
	verdict := Verdict{Phase: Refused, Problems: problems}
	if next == nil {
		return verdict, nil
	}
	deciding := decision{proposal, inForce, next, document.Equal(next, inForce), evidence}
	if err := deciding.judge(&verdict); err != nil {
		return Verdict{Phase: Read}, fmt.Errorf("the inventory waits, for it cannot be told what it would take away: %w", err)
	}
	verdict.Problems = append(verdict.Problems, evidence.Storable(next)...)
	if verdict.Problems.Err() != nil {
		return verdict, nil
	}
	verdict.Phase, verdict.Next = Allowed, next
	return deciding.try(verdict)
}

// read is the inventory that an edit makes, with what is held of that in force. It is nil if and
// only if the problems have an error.
func (p Proposal) read(known *inventory.Inventory) (*inventory.Inventory, inventory.Problems) {
	if p.Problems.Err() != nil {
		return nil, p.Problems
	}
	name := ""
	if known != nil {
		name = known.Name
	}
	next, problems := document.ParseFor(name, p.Documents...)
	problems = append(problems, p.Problems...)
	if next == nil {
		return nil, problems
	}
	if wrong := p.Mislabelled(next.Name); len(wrong) > 0 {
		return nil, append(wrong, problems...)
	}
	if next.Safety.Paused {
		return nil, append(problems, PausedProblem())
	}
	admitted, more := Admit(next, known)
	return admitted, append(problems, more...)
}

// decision is on one edit that has no error of its own.
type decision struct {
	Proposal
	inForce, next *inventory.Inventory
	same          bool // both say the same
	Evidence
}

// judge holds what the edit would take away against what it may.
func (d decision) judge(verdict *Verdict) error {
	losses := LossesOf(d.next, d.inForce)
	if d.inForce != nil && d.Losses != nil && !d.same {
		of, err := d.Losses(d.next)
		if err != nil {
			return err
		}
		losses = losses.In(of)
	}
	problems, digest := losses.Refuse(d.inForce, d.Allowance)
	if unaided, _ := losses.Refuse(d.inForce, Allowance{}); len(unaided) == 0 && !d.same {
		var err error
		if problems, digest, err = d.stays(); err != nil {
			return err
		}
	}
	if verdict.Problems = append(problems, verdict.Problems...); len(problems) > 0 {
		verdict.Digest = digest
	}
	if n := d.Allowance.Removals; n > 0 && !losses.NeedLeave(d.inForce) {
		verdict.Problems = append(verdict.Problems, leaveLeftBehind(n))
	}
	return nil
}

// stays refuses an edit again that was refused for its losses, though it would not cause them
// any more: something else did meanwhile.
func (d decision) stays() (inventory.Problems, string, error) {
	before, err := d.Refusal()
	if err != nil || before.Content != d.Content || slices.Contains(d.Allowance.Digests, before.Digest) {
		return nil, "", err
	}
	if RetermedBy(d.next, d.inForce).Digest() == before.Digest {
		return inventory.Problems{d.triedBefore(before.Digest)}, before.Digest, nil
	}
	return inventory.Problems{{
		Severity: inventory.Error, Code: inventory.StaysRefused, Path: "spec",
		Message:  "was refused for what it would have taken away, which is lost by now in another way",
		Accepted: "another edit, or if this one is meant: plinth allow " + before.Digest,
	}}, before.Digest, nil
}

func (d decision) triedBefore(digest string) inventory.Problem {
	return trialFailed([]string{"the same edit was tried before"}, d.inForce.Safety.Trial(), digest)
}

// mostSilent is the number of machines that may report nothing until an edit is refused for it: their agents may
// be dead, or older than this controller.
const mostSilent = 2

// try has an edit that is allowed wait while the terms that it gives to sessions are tried.
func (d decision) try(allowed Verdict) (Verdict, error) {
	if d.inForce == nil || d.same || !d.Whole || d.Agents == nil || d.inForce.Safety.Trial() == 0 {
		return allowed, nil
	}
	changed := RetermedBy(d.next, d.inForce)
	digest := changed.Digest()
	if len(changed) == 0 || slices.Contains(d.Allowance.Digests, digest) {
		return allowed, nil
	}
	before, err := d.Refusal()
	switch {
	case err != nil:
		return Verdict{Phase: Read, Problems: allowed.Problems}, err
	case before == Refusal{d.Content, digest}:
		return allowed.refusedFor(d.triedBefore(digest), digest), nil
	}
	agents, err := d.Agents()
	if err != nil {
		return Verdict{Phase: Read, Problems: allowed.Problems}, fmt.Errorf("the inventory waits, for it cannot be told how machines' sessions are: %w", err)
	}
	return d.judgeTrial(allowed, changed, agents), nil
}

// judgeTrial returns the verdict of the running trial, or begins one.
func (d decision) judgeTrial(allowed Verdict, changed Retermed, agents map[string]Agent) Verdict {
	trial, mine, running := d.Running(d.next)
	over := !d.Now.Before(trial.Until)
	running = running && (mine || !over)
	silent := d.Silent
	if !mine {
		silent = nil
	}
	if !running {
		return d.beginTrial(allowed, changed, agents, silent)
	}
	heard := without(agents, silent)
	failed, unheard := trial.failures(heard, changed)
	if over && len(unheard) > 0 && len(silent) < mostSilent {
		if v := d.beginTrial(allowed, changed, agents, slices.Concat(silent, unheard)); v.Phase == OnTrial {
			return v
		}
	}
	switch {
	case len(failed) == 0:
		allowed.CameUp = trial.Nodes()
		return allowed
	case !over:
		allowed.Phase, allowed.Trial, allowed.Silent = OnTrial, trial, silent
		return allowed
	}
	digest := changed.Digest()
	return allowed.refusedFor(trialFailed(failed, d.inForce.Safety.Trial(), digest), digest)
}

// beginTrial chooses the machines that try the edit; where no agent could, nothing is to be lost, and the edit is allowed.
func (d decision) beginTrial(allowed Verdict, changed Retermed, agents map[string]Agent, silent []string) Verdict {
	if routers := trialNodes(changed, without(agents, silent)); len(routers) > 0 {
		allowed.Phase, allowed.Silent = OnTrial, silent
		allowed.Trial = Trial{Until: d.Now.Add(d.inForce.Safety.Trial()), Routers: routers}
	}
	return allowed
}

// without are the agents of all Nodes but these.
func without(agents map[string]Agent, nodes []string) map[string]Agent {
	out := make(map[string]Agent, len(agents))
	for machine, a := range agents {
		if !slices.Contains(nodes, a.Node) {
			out[machine] = a
		}
	}
	return out
}

// refusedFor is the verdict on an edit that was allowed, but for its trial.
func (v Verdict) refusedFor(why inventory.Problem, digest string) Verdict {
	v.Phase, v.Next, v.Digest = Refused, nil, digest
	v.Problems = append(inventory.Problems{why}, v.Problems...)
	return v
}
