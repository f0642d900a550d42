// Package netns has the tests of a package run in a network namespace of their own, in the place of the machine's: what they set up
// there is gone with it. They need root. No program imports it.
package netns
