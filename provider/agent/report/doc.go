// Package report reports the state that an agent reached: in the condition of its Node, in /status and as metrics.
//
// A pass counts a [Tally], whose [Statement] becomes the condition; a [Writer] keeps that on the Node, in a goroutine
// of its own. A pass shows a [Status] on the [Board], which works out its long lists at each request. The parts that controllers
// and people read are documented: the JSON of /status, the names of metrics, and the message, which is a
// lb.Report.
package report
