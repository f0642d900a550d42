// Package proxy keeps the announcements of a machine to VIPs that kube-proxy on it can serve: [Health] asks it, and a [Gate]
// holds a VIP back until there are rules for it, and notices when these are gone.
//
// Which VIP waits, passes or has lost its rules a value of package advertise decides; here are its clock, and the
// goroutine that asks the kernel. Answers are kept until the next pass takes them, by [Gate.Apply].
package proxy
