package importer

import (
	"fmt"
	"slices"
	"strings"
)

// notebook keeps the notes of an import.
type notebook struct {
	notes Notes
}

// note records the fate of the fields at and below a path of an object.
func (b *notebook) note(o *object, path string, code Code, message string) {
	b.tell(Told, o, path, code, message)
}

// fail records an error of the inventory at the field of the object that it came from.
func (b *notebook) fail(o *object, path string, code Code, message string) {
	b.tell(Error, o, path, code, message)
}

func (b *notebook) tell(severity Severity, o *object, path string, code Code, message string) {
	b.notes = append(b.notes, Note{Position: o.position(path), Severity: severity, Code: code, Object: o.String(), Path: path, Message: message, of: o})
}

// markAndNote records a note on the fields at and below a path, and marks them as noted.
func (b *notebook) markAndNote(o *object, path string, code Code, message string) {
	o.mark(noted, path)
	b.note(o, path, code, message)
}

// overrideAndNote is markAndNote in the place of earlier marks below the path.
func (b *notebook) overrideAndNote(o *object, path string, code Code, message string) {
	o.override(path)
	b.note(o, path, code, message)
}

// drop notes that fields are not carried over, as far as they are written.
func (b *notebook) drop(o *object, path, message string) {
	if o.has(path) {
		b.markAndNote(o, path, NoCounterpart, message)
	}
}

// dropUnless is drop, but for a value that says what goes without saying.
func (b *notebook) dropUnless(o *object, path, implied, message string) {
	if n := o.at(path); n != nil && n.Value == implied {
		o.mark(meaningless, path)
		return
	}
	b.drop(o, path, message)
}

// leaveOut records the reason why nothing of an object is in the inventory, in the place of all earlier notes on it.
func (b *notebook) leaveOut(o *object, path string, code Code, message string) {
	o.override("")
	o.mark(meaningless, "apiVersion", "kind", "metadata", "status")
	o.mark(noted, "metadata.name")
	b.notes = slices.DeleteFunc(b.notes, func(n Note) bool { return n.of == o })
	b.note(o, path, code, message)
	b.ofWhole()
}

// ofWhole marks the last note as one on all of its object.
func (b *notebook) ofWhole() { b.notes[len(b.notes)-1].whole = true }

// leaveOutPool records the reason why a pool is left out which has none of the ranges at a path: the first reason of those that were noted.
func (b *notebook) leaveOutPool(obj *object, path string) {
	why := ""
	for _, n := range b.notes {
		if n.of == obj && within(n.Path, path) {
			why = " (" + strings.TrimSuffix(n.Message, ": it is left out") + ")"
			break
		}
	}
	b.leaveOut(obj, path, NotValid, "has no address that a pool can have"+why+": the pool is left out")
}

// namesSecret reports whether a Secret can have a name that an object says; else it is noted, and the session has no password.
func (b *notebook) namesSecret(obj *object, path, name string) bool {
	if secretName.MatchString(name) {
		return true
	}
	if obj.fates[path] == noted {
		return false // of another session
	}
	b.markAndNote(obj, path, NotValid, fmt.Sprintf("no Secret can be called %q: the session has no password until passwordFrom says which one has it", name))
	return false
}

// guess records a value of the inventory that no source has, and that a person has to check.
func (b *notebook) guess(path, message string) { b.tellInventory(Guessed, path, message) }

// tellInventory records a note on the inventory itself, and on no object.
func (b *notebook) tellInventory(code Code, path, message string) {
	b.notes = append(b.notes, Note{Severity: Told, Code: code, Path: path, Message: message})
}
