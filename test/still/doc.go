// Package still notes who had to wait on this machine: all of it, as a virtual machine does that gets no processor, or
// programs that were ready to run while others had the processors. A test that depends on the clock and fails meanwhile
// has shown nothing.
package still
