package inventory

import (
	"fmt"
	"strconv"
)

// AnnotationFormat is on each object that Plinth stores: the number of the format that it is
// written in. It is raised only where a program that knows the number before would
// misunderstand the object; see docs/reference/skew.md. An object without it is of format 1.
const AnnotationFormat = "plinth.dev/format"

// NewerFormatError means that a newer version stored an object in a format that this program
// does not read. Whoever meets one keeps what it knew of the object, and does not write it.
type NewerFormatError struct {
	Object string // kind and name
	Format string // as it stands there
	Reads  int    // the highest that this program reads
}

// Error describes the skew and its remedy.
func (e *NewerFormatError) Error() string {
	return fmt.Sprintf("%s is of format %q, written by a newer version, and this program reads formats up to %d: upgrade it, or set the object back as docs/reference/skew.md says",
		e.Object, e.Format, e.Reads)
}

// CheckFormat returns a [NewerFormatError] if the annotations of a stored object say another
// format than this program reads.
func CheckFormat(object string, annotations map[string]string, reads int) error {
	said, ok := annotations[AnnotationFormat]
	if !ok {
		return nil
	}
	if n, err := strconv.Atoi(said); err == nil && n >= 1 && n <= reads {
		return nil
	}
	return &NewerFormatError{object, said, reads}
}
