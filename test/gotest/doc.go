// Package gotest reads the events of go test -json and go tool test2json: what came of each test, how long it
// took, and what it said.
package gotest
