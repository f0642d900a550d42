// Package plan decides on the announcements of a machine, and on its routes in the kernel: [Inputs] and the state of the
// moment go in, a [Plan] comes out.
//
// All in it are values and state machines that are told the time: no clock, no disk, no API server. [Inputs] are
// an observation, of one [Version]. The [Phase] is the state of a [Drain] at the moment, the [Step] that of a
// [ModeTransition]. A plan depends on these alone, so that the holder of a [Key] need not plan again.
package plan
