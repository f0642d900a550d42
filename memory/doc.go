// Package memory gives back to the machine what a program needed for a burst and does
// not need any more.
package memory
