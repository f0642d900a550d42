// Package routes measures what an agent costs in a large cluster: its memory, and the
// time from the creation of a Node until its route is in the kernel, by mode.
//
// The API server and the agent are real, in a network namespace of their own; of the
// other machines there are the Nodes alone.
package routes
