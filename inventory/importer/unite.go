package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// MetalLB and Cilium join all advertisements that are of a Service, a Node and a peer: the peer hears the communities of all. In an inventory the first
// one of a list counts. So the parts that several have in common are made advertisements of their own here, with what all of them say, and
// come first.

// mostUnited bounds how many advertisements are made of those of one pool.
const mostUnited = 64

// united are advertisements of which the first that fits says what all say together; false: they would be too many.
func united(given []inventory.Advertise) ([]inventory.Advertise, bool) {
	parts := slices.Clone(given)
	for i := 0; i < len(parts); i++ {
		for _, one := range given {
			part, ok := common(parts[i], one)
			if !ok || slices.ContainsFunc(parts, func(have inventory.Advertise) bool { return sameScope(have, part) }) {
				continue
			}
			if len(parts) == mostUnited {
				return given, false
			}
			parts = append(parts, part)
		}
	}
	parts = distinct(parts)
	size := map[int]int{}
	for i := range parts {
		for _, one := range given {
			if covers(one, parts[i]) {
				parts[i] = joined(parts[i], one)
				size[i]++
			}
		}
	}
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	out := make([]inventory.Advertise, len(parts))
	for to, from := range order {
		out[to] = parts[from]
	}
	return needed(out), true
}

// statement is one advertisement of pools in an object.
type statement struct {
	object *object
	path   string
	needed bool     // by a pool
	idle   []string // pools of which others say all of it
	never  bool     // no labels of a Service meet its selector
}

// unite has the first advertisement of a pool that fits say what all of them say together, as MetalLB and Cilium do. Each comes from a statement, where these are given.
func (d *draft) unite(o *object, pool *inventory.Pool, from []*statement) {
	given, from := ofSomebody(pool.Advertise, from)
	all, ok := united(given)
	pool.Advertise = all
	if !ok {
		d.note(o, "", Differs, "it has so many advertisements that what several of them say together is not worked out: in the inventory the first that fits counts")
		return
	}
	for i := len(from) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(given), i, i+1)
		if rest, _ := united(fewer); len(fewer) > 0 && slices.EqualFunc(rest, all, sameAdvertise) {
			given = fewer
			from[i].idle = append(from[i].idle, pool.Name)
		} else {
			from[i].needed = true
		}
	}
}

// ofSomebody leaves out advertisements that no labels of a Service meet, and marks their statements; where all are such, they stay.
func ofSomebody(all []inventory.Advertise, from []*statement) (out []inventory.Advertise, of []*statement) {
	for i, a := range all {
		if contradicts(a.Selector) && i < len(from) {
			from[i].never = true
			continue
		}
		out = append(out, a)
		if i < len(from) {
			of = append(of, from[i])
		}
	}
	if len(out) == 0 {
		return all, from
	}
	return out, of
}

// tellIdle notes what others say as well.
func (d *draft) tellIdle(all []*statement) {
	for _, statement := range all {
		if statement.never {
			d.overrideAndNote(statement.object, statement.path, NotValid, "chooses no Service: what it asks of labels contradicts itself")
			continue
		}
		if len(statement.idle) == 0 {
			continue
		}
		if !statement.needed {
			statement.object.override(statement.path)
		}
		d.note(statement.object, statement.path, Differs, fmt.Sprintf("without it the same is announced of pool %s: other advertisements say it as well", strings.Join(statement.idle, ", ")))
	}
}

// sameAdvertise reports whether two advertisements are the same.
func sameAdvertise(a, b inventory.Advertise) bool {
	return sameScope(a, b) && a.Communities == b.Communities && a.LocalPref == b.LocalPref && a.Prepend == b.Prepend
}

// distinct leaves out what has the scope of one before it.
func distinct(all []inventory.Advertise) (out []inventory.Advertise) {
	for _, a := range all {
		if !slices.ContainsFunc(out, func(have inventory.Advertise) bool { return sameScope(have, a) }) {
			out = append(out, a)
		}
	}
	return out
}

// needed leaves out what a later one says as well, with none between them that meets it.
func needed(all []inventory.Advertise) []inventory.Advertise {
	for i := len(all) - 2; i >= 0; i-- {
		for j := i + 1; j < len(all); j++ {
			_, meet := common(all[i], all[j])
			if !meet {
				continue
			}
			if covers(all[j], all[i]) && all[i].LocalPref == all[j].LocalPref && all[i].Prepend == all[j].Prepend && all[i].Communities == all[j].Communities {
				all = slices.Delete(all, i, i+1)
			}
			break
		}
	}
	return all
}

// common returns the intersection of two advertisements; false: there is none.
func common(advertise, other inventory.Advertise) (inventory.Advertise, bool) {
	racks, ok1 := bothOf(advertise.Racks, other.Racks)
	routers, ok2 := bothOf(advertise.Routers, other.Routers)
	selector, ok3 := bothSelectors(advertise.Selector, other.Selector)
	part := advertise
	part.Racks, part.Routers, part.Selector = racks, routers, selector
	return part, ok1 && ok2 && ok3 && advertise.Aggregate == other.Aggregate
}

// bothOf are the names that two lists have of which an empty one means all; false: none.
func bothOf(left, right []string) ([]string, bool) {
	switch {
	case len(left) == 0:
		return right, true
	case len(right) == 0:
		return left, true
	}
	both := slices.DeleteFunc(slices.Clone(left), func(s string) bool { return !slices.Contains(right, s) })
	return both, len(both) > 0
}

// bothSelectors chooses what two selectors choose; false: no labels meet both.
func bothSelectors(a, other inventory.Selector) (inventory.Selector, bool) {
	out := inventory.Selector{MatchLabels: maps.Clone(a.MatchLabels), MatchExpressions: slices.Clone(a.MatchExpressions)}
	for key, value := range other.MatchLabels {
		if have, ok := out.MatchLabels[key]; ok && have != value {
			return out, false
		}
		put(&out.MatchLabels, key, value)
	}
	for _, e := range other.MatchExpressions {
		if !slices.ContainsFunc(out.MatchExpressions, func(have inventory.Requirement) bool { return have.String() == e.String() }) {
			out.MatchExpressions = append(out.MatchExpressions, e)
		}
	}
	return out, !contradicts(out)
}

// sameScope reports whether two advertisements are of the same Services, racks, routers and prefixes.
func sameScope(a, b inventory.Advertise) bool {
	return a.Aggregate == b.Aggregate && a.Selector.String() == b.Selector.String() && slices.Equal(a.Racks, b.Racks) && slices.Equal(a.Routers, b.Routers)
}

// covers reports whether an advertisement is of all that another one is of.
func covers(wide, narrow inventory.Advertise) bool {
	part, ok := common(narrow, wide)
	return ok && sameScope(part, narrow)
}

// joined is an advertisement with what another one says, too.
func joined(a, b inventory.Advertise) inventory.Advertise {
	a.Communities = inventory.CommunitiesOf(append(slices.Collect(a.Communities.All()), slices.Collect(b.Communities.All())...)...)
	a.LocalPref, a.Prepend = max(a.LocalPref, b.LocalPref), max(a.Prepend, b.Prepend)
	return a
}

// said is a number that an object says.
type said struct {
	object *object
	number uint32
}

// tellLower notes the lower one of two numbers, which two objects say at a path of what both are of: the higher one counts there.
func (d *draft) tellLower(pool, path string, said, other said) {
	if said.number == other.number {
		return
	}
	if said.number > other.number {
		said, other = other, said
	}
	field := path[strings.LastIndexByte(path, '.')+1:]
	note := Note{Severity: Told, Code: Differs, Object: said.object.String(), Path: path, of: said.object,
		Message: fmt.Sprintf("%s is %d, and %v has %d of pool %s: Services and routers that both are of get the higher one", field, said.number, other.object, other.number, pool)}
	if said.object.has(path) {
		said.object.mark(noted, path)
	} else {
		note.Path = path[:strings.IndexByte(path, '.')]
	}
	note.Position = said.object.position(note.Path)
	if !slices.Contains(d.notes, note) {
		d.notes = append(d.notes, note)
	}
}
