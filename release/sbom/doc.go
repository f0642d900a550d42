// Package sbom writes the software bill of materials of a Go program.
package sbom
