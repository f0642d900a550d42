// Package bench measures what the docs give a figure for and that takes a real
// API server: how fast Nodes are initialised, and how soon an edit of the
// inventory is on its Node. make bench runs it.
package bench
