// Package document reads, checks, merges, prints and explains the YAML documents that an inventory is written in.
//
// A document goes through these files, each with its own kind of problem:
//
//	pages.go      bytes to YAML nodes
//	fields.go     nodes to raw values (raw.go has every key, with its documentation); scalars.go reads one value
//	merge.go      the raw values of all documents to one
//	build.go      raw values to an [inventory.Inventory]
//	checks.go     the list of what the values are checked for together, a file validate_*.go a subject
//	place.go      problems to source, line, column and path
//
// format.go goes the other way, and prints what [Parse] reads as the same. The schema, the reference pages and the
// explanations are made of raw.go as well, so that a key is added in one place.
//
// It is pure: bytes in, a value or a list of problems out.
package document
