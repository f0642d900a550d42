// Package docs has the entries of the reference pages for every word that Plinth prints, so that a
// program can print the same. Which pages those are, and that no word is missing there, the
// tests of cmd/plinth know. The pages are the source: nothing is written twice.
package docs
