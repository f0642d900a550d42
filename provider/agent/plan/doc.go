// Package plan decides what a machine is to announce, and to have in its kernel: [Inputs] and what is true of the
// moment go in, a [Plan] comes out.
//
// All in it are values and machines of states that are told the time: no clock, no disk, no API server. [Inputs] are
// what was observed, of one [Version]. The [Phase] is what [Drain] says of the moment, the [Step] what a
// [ModeTransition] says. A plan depends on these alone, so that who holds a [Key] need not plan again.
package plan
