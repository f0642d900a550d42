// Package watch keeps up with all that the API server says and a plan needs, and hands it out as the inputs of one
// moment.
//
//	API server -> reflector -> objectCache (one a kind) -> Sources.Snapshot -> plan.Inputs
//	ConfigMaps -> source.Follow -> Sources.Accept --------^
//
// All caches have one lock, so that a snapshot is of one moment; fields that it guards are named where they are. An
// event changes a cache, counts up a number of the inputs' version, and calls changed, which must not wait. What has
// to be followed depends on what was heard: [Sources.Adjust], which like [Sources.Snapshot] is for the goroutine of
// the agent, starts and stops reflectors. Until all that is necessary has been listed, Snapshot says what is missing.
package watch
