// Package buildinfo tells which build of Plinth a program is: its version and the commit
// that it was built from, as all three programs print and show them.
package buildinfo
