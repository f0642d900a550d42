// The program dist makes all that a release of Plinth consists of, out of programs and images
// that are built already: archives of the programs for each platform with an SBOM beside each,
// the images, the chart as a package, manifests of one file, the manifest for krew, the
// notes, and checksums of all. The same input gives the same bytes. `make release` calls it.
package main
