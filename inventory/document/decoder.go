package document

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// decoder turns nodes into raw values. It collects what it refuses and carries on.
type decoder struct {
	faults  []fault
	inForce string // the name of the inventory that is; empty: none
	lenient bool   // unknown keys are passed over
	strict  bool   // of what is lenient: what older versions insist on is missing here, too
	part    bool   // other documents, which are not here, may have what these refer to
	meant   map[meant]bool
	pages   []page
	steps   int // left before so many aliases are taken for an attack
}

// meant is the key that was most likely meant by another one in a mapping.
type meant struct {
	mapping *yaml.Node
	key     string
}

// fault is a problem whose place is still a node.
type fault struct {
	node    *yaml.Node
	related []*yaml.Node
	refusal
}

// refusal is the problem of a value, without the value's position.
type refusal struct {
	code       inventory.Code
	severity   inventory.Severity // empty: an error
	message    string
	value      string // empty: what the node says
	accepted   string
	suggestion string
	example    bool // the suggestion is one of many that would do
	elsewhere  bool // the suggestion is one for another key
}

// refuse notes that the node is refused; related are other places to look at.
func (d *decoder) refuse(n *yaml.Node, r refusal, related ...*yaml.Node) {
	d.faults = append(d.faults, fault{node: n, refusal: r, related: related})
}

// wrongType refuses a node that is not what is wanted.
func (d *decoder) wrongType(n *yaml.Node, want string) {
	d.refuse(n, refusal{code: inventory.WrongType, message: "is " + kindOf(n) + ", not " + want, accepted: want})
}

// kindOf names the kind of value that was written.
func kindOf(n *yaml.Node) string {
	tag := n.ShortTag()
	switch is := kindNames[tag]; {
	case is == "":
		return "a value with a tag of its own"
	case tag == "!!float" && !strings.Contains(n.Value, "."): // 1e3, and 08
		return "a number"
	default:
		return is
	}
}

// kindNames are the names of the kinds of values.
var kindNames = map[string]string{
	"!!str": "text", "!!int": "a number", "!!float": "a number with a point", "!!bool": "a truth value",
	"!!null": "nothing", "!!timestamp": "a date", "!!map": "a mapping", "!!seq": "a list",
}
