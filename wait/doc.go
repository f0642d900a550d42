// Package wait waits in tests, of either module, until something is as it should be, however busy the machine is. No
// program imports it.
//
// A deadline alone says what a machine did, not what a program did: a test that gets no processor while its time runs
// out has not looked at all. So limits are for a quiet machine and are waited for five times over, and when the time
// is over there is one look more.
package wait
