package importer

// Code is the stable name of a kind of note: I and four digits.
type Code string

// The kinds of notes. docs/reference/import.md has them.
const (
	NotRead       Code = "I0001" // a document that is no object, or an object of a kind that the source does not read
	UnknownField  Code = "I0002" // a field that this version does not know
	NoCounterpart Code = "I0003" // a setting that Plinth does not have
	NotValid      Code = "I0004" // a value that cannot be, or makes no difference: the message says what is left out, if anything is
	Renamed       Code = "I0005" // a name that an inventory cannot have
	Guessed       Code = "I0006" // what the source does not say, and somebody has to look at
	ByHand        Code = "I0007" // what has to be done by hand
	Differs       Code = "I0008" // two objects say different things of what is one thing in an inventory
)
