// Package golden holds what tests make against the files of the repository that say what it is to be: goldens, and pages of
// docs/ that are generated. With the flag -update a test writes such a file instead. No program imports it.
package golden
