// Package watch caches all objects of the API server that a plan needs, and returns them as the inputs of one
// moment.
//
//	API server -> reflector -> objectCache (one a kind) -> Sources.Snapshot -> plan.Inputs
//	ConfigMaps -> source.Follow -> Sources.Accept --------^
//
// All caches have one lock, so that a snapshot is of one moment; fields that it guards are named where they are. An
// event changes a cache, counts up a number of the inputs' version, and calls changed, which must not wait. Which objects
// are followed depends on others: [Sources.Adjust], which like [Sources.Snapshot] is for the goroutine of
// the agent, starts and stops reflectors. Until all that is necessary has been listed, Snapshot names the object that is missing.
package watch
