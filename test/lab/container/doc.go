// Package container starts a program with the rights that a container runtime would
// give it: in a root file system of its own that cannot be written to, with the
// capabilities that it was given and no way to others, and without the system calls
// that a runtime's default profile refuses.
//
// Two things differ from a runtime. The program shares the process IDs of the host, so
// that a lab finds it in /proc as any other. And the filter lists what is refused,
// where a runtime lists what is allowed: a call that neither list knows is let through.
package container
