// Package routing decides which routes a node needs so that any pod reaches any
// pod, and what differs from the routes it has.
//
// It is pure: [Plan] takes a [View] and returns a [Table] of values that compare
// with ==, the same for the same input, and [Diff] subtracts one list of routes
// from another. What they decide is carried out by others.
package routing
