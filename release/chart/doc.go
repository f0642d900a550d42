// The program chart writes the README of the Helm chart from the comments of its values.yaml.
// `make generate` calls it.
package main
