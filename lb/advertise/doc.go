// Package advertise decides which prefixes a machine announces to which router, and which VIPs it
// answers for on its own subnets, and says why not.
//
// It does no I/O and has no clock: a [Plan] is a function of a [View]. A [Planner] gives the
// same plans for less work where a view differs from the last one in a few Services. A
// [Gate] stands before it: it holds offers back until kube-proxy has the rules for them, and
// is told the time and the evidence.
//
// [LinksOf] plans for subnets as far as that does not depend on the machines that are up. A [Succession] does
// the rest, one for each subnet (succession.go): in each step a decision (decision.go) takes the tenure of each VIP
// (tenure.go) from one phase to the next (phase.go). A machine that is to own a VIP claims it (claim.go), else it
// leaves the VIP to another one and yields what it claimed (handover.go). Answers to probes and the claims of other
// machines come in between the steps (probe.go).
package advertise
