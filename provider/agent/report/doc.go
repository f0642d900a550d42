// Package report says what an agent reached: in the condition of its Node, in /status and as metrics.
//
// A pass counts a [Tally], whose [Statement] becomes the condition; a [Writer] keeps that on the Node, in a goroutine
// of its own. A pass shows a [Status] on the [Board], which works out what is long when somebody looks. What controllers
// and people read of these is documented: the JSON of /status, the names of metrics, and the message, which is a
// lb.Report.
package report
