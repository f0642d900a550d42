// The program images packs Plinth's programs for Linux into container images,
// without a container engine: one OCI archive an image, for every architecture,
// and a software bill of materials (SBOM) beside it for each. The same programs give
// the same bytes. `make images` builds the programs and calls it.
package main
