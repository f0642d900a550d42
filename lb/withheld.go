package lb

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Withheld describes the advertisements of one family that a session withholds, though it is up. It compares with ==.
type Withheld struct {
	Router string
	Peer   string // the router's address
	Reason Reason
	Family Family
	All    bool // the session withholds whatever is of the family, and not some prefixes alone
}

// someMark stands before the family of which a session withholds some prefixes.
const someMark = "some "

// String returns the entry as it stands in the message.
func (w Withheld) String() string {
	some := someMark
	if w.All {
		some = ""
	}
	return fmt.Sprintf("%s/%s %s %s%v", w.Router, strings.Map(inWord, w.Peer), w.Reason, some, w.Family)
}

// rank is 0 of entries that stand before those of rank 1.
func (w Withheld) rank() int {
	if w.All {
		return 0
	}
	return 1
}

// maxWithheld is the number of entries that a message has.
const maxWithheld = 8

// NameWithheld has the report name the first of these, sorted as they are printed: first those of whole families.
func (r *Report) NameWithheld(all []Withheld) {
	all = slices.SortedFunc(slices.Values(all), func(a, b Withheld) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.String(), b.String()))
	})
	r.Withheld = all[:min(len(all), maxWithheld)]
	r.MoreWithheld = len(all) - len(r.Withheld)
}

// takeWithheld takes the part only if it knows each entry of it.
func takeWithheld(r *Report, part string) (string, bool) {
	said, marked := strings.CutPrefix(part, withheldMark)
	if !marked || r.Withheld != nil || r.MoreWithheld > 0 {
		return part, false
	}
	entries, more := splitEntries(said)
	var all []Withheld
	for _, entry := range entries {
		w, known := parseWithheld(entry)
		if !known {
			return part, false
		}
		all = append(all, w)
	}
	r.Withheld, r.MoreWithheld = all, more
	return "", true
}

func parseWithheld(entry string) (Withheld, bool) {
	end, rest, _ := strings.Cut(entry, " ")
	router, peer, _ := strings.Cut(end, "/")
	reason, rest, _ := strings.Cut(rest, " ")
	family, some := strings.CutPrefix(rest, someMark)
	w := Withheld{Router: router, Peer: peer, Reason: Reason(reason), All: !some}
	for f, name := range familyNames {
		if name == family {
			w.Family = f
		}
	}
	return w, router != "" && peer != "" && reason != "" && w.Family != NoFamily && w.String() == entry
}
