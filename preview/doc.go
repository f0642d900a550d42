// Package preview says what a whole datacenter would announce: for every VIP in use the
// machines and routers that do, and why the others do not, under one inventory or another.
//
// It is pure, and plans with what the agents plan with (package advertise). What an edit would
// take away ([Unreachable]) is a question to it. It knows who would announce, and not whether a
// router listens: that a session comes up no plan can tell.
package preview
