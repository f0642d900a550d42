// Package preview says what a whole datacenter would announce, and how its pods would reach each
// other, under one inventory or another: for every VIP in use the machines and routers that announce
// it, and why the others do not; for every pair of racks the ways of their pods; each with failures
// that are assumed.
//
// It is pure, and plans with what the agents plan with (packages advertise and routing). What an edit
// would take away for good ([Unreachable]), and what an edit or a failure would do at this moment
// ([Simulate], [Compare]), are questions to it. It knows reachability up to the routers: that a session
// comes up, and how routers reach each other, no plan can tell.
package preview
