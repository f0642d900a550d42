// Package disk keeps the state that an agent needs to go on where the process before it was, while the API server is away.
//
// There are two files. [StateFile] has the inputs of the last plan, passwords among them, as of a format that skew.md
// of the docs' reference describes; [AliveFile] says when a process was last at work, and how far it had come
// ([Handover]). A [Saver] writes both in goroutines of its own. Files of another Node or machine, and of a newer format, count
// for nothing.
package disk
