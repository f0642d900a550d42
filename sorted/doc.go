// Package sorted has a list that keeps its order, and whose versions share what they
// have in common: to change a little of a long one, or to find what differs between
// two, costs little.
package sorted
