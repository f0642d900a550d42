package routing

// Difference holds the changes from the routes that there are to the desired ones.
// Each part is sorted.
type Difference struct {
	Add     []Route
	Replace []Route // the key is there already, with another next hop
	Delete  []Route // as they are now
}

// Empty reports whether there is nothing to do.
func (d Difference) Empty() bool { return len(d.Add)+len(d.Replace)+len(d.Delete) == 0 }

// Diff returns the changes that turn have into want. Both are sorted and hold each key once.
func Diff(have, want []Route) Difference {
	var difference Difference
	for len(have) > 0 && len(want) > 0 {
		if have[0] == want[0] { // nearly always; comparing the order costs more
			have, want = have[1:], want[1:]
			continue
		}
		switch c := have[0].Compare(want[0]); {
		case c < 0:
			difference.Delete = append(difference.Delete, have[0])
			have = have[1:]
		case c > 0:
			difference.Add = append(difference.Add, want[0])
			want = want[1:]
		default:
			difference.Replace = append(difference.Replace, want[0])
			have, want = have[1:], want[1:]
		}
	}
	difference.Delete = append(difference.Delete, have...)
	difference.Add = append(difference.Add, want...)
	return difference
}
