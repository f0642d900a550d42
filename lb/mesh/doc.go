// Package mesh observes which machines of a subnet are up, by BFD between them, and whether the
// subnet's witness answers.
//
// [Mesh.Set] is given all links whole; sessions of machines that stay go on. [Mesh.State] returns
// the state of each machine, [Mesh.Changed] signals that it has changed, and
// [Mesh.AnswersUntil] returns the time until which this machine may trust the state that it read.
//
// A peer (standing.go) and the deadline (evidence.go) are pure: they are told facts and the
// time. A link (link.go) has one goroutine, which feeds them and owns them; the sessions run in
// package bfd.
//
// # How long a loss takes
//
// A machine that falls silent is probed on the wire, by ARP or neighbor discovery, once half
// of the detection time has passed since its last packet, so that the answer is there when the
// session times out. With the default timers of 100 ms and 3 packets that is 300 ms after its
// last packet, and a machine that is cut off at any instant sent that up to 100 ms before. An
// answer that is late is waited for until [askLimit] after the detection time, 450 ms after the
// last packet. A process that wakes up late adds what it slept, at most once an interval before
// it reads what has come meanwhile.
//
//   - The kernel answers: [advertise.Holding], for Config.RestartTime at most, and it is asked
//     again each second.
//   - It does not: [advertise.Down].
//   - The peer asked for time with a hand-over: Holding once its packets stop, until its session
//     times out. It is asked for in the same way.
//   - The peer ended its session, or says that it does not hear this machine: Down at once.
//
// # How long a newborn waits
//
// A session receives for a detection time, in which a peer that still has the session of an
// earlier process up sends, and sends then; a peer that runs answers that packet at once. A
// machine is Down if nothing came for two detection times and the second of RFC 5880, section
// 6.8.3, in which this machine sends at least two packets and a peer at least one unasked. A
// machine that was heard and whose session does not come up, since it does not hear this one,
// is Down after three such seconds more.
package mesh
