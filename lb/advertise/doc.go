// Package advertise decides which prefixes a machine announces to which router, and says
// why not.
//
// It does no I/O and has no clock: a [Plan] is a function of a [View]. A [Planner] gives the
// same plans for less work where a view differs from the last one in a few Services. A
// [Gate] stands before it: it holds offers back until kube-proxy has the rules for them, and
// is told the time and the evidence.
package advertise
