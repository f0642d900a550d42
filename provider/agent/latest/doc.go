// Package latest hands the latest of many values from one goroutine to another, which may be slow: a disk that
// hangs, or an API server that is away, holds up nobody.
package latest
