// Package docs has what the reference pages say of every word that Plinth prints, so that a
// program can say the same. Which pages those are, and that no word is missing there, the
// tests of cmd/plinth know. The pages are the source: nothing is written twice.
package docs
