// The program publish pushes the images of a release, which are OCI archives, to where the
// release says that they are pulled from. `make publish-images` calls it.
package main
