package sorted

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// entry is told apart by its key.
type entry struct{ key, value int }

func (e entry) Compare(o entry) int { return cmp.Compare(e.key, o.key) }

func drawEntries(t *rapid.T, name string, most int) []entry {
	one := rapid.Custom(func(t *rapid.T) entry {
		return entry{rapid.IntRange(0, 400).Draw(t, "key"), rapid.IntRange(0, 2).Draw(t, "value")}
	})
	return rapid.SliceOfN(one, 0, most).Draw(t, name)
}

// sound checks the order, the length, and that no chunk is empty or too long, and no
// two neighbours too short.
func sound(t *rapid.T, l List[entry]) {
	n := 0
	for i, c := range l.chunks {
		n += len(c)
		if len(c) == 0 || len(c) > 2*chunkSize || i > 0 && len(l.chunks[i-1])+len(c) <= chunkSize {
			t.Fatalf("chunk %d of %d has %d items", i, len(l.chunks), len(c))
		}
	}
	all := slices.Collect(l.All())
	if n != l.Len() || len(all) != n || !slices.IsSortedFunc(all, entry.Compare) {
		t.Fatalf("%d items, %d of them listed, length %d: %v", n, len(all), l.Len(), l)
	}
}

func TestAListHasWhatAMapWouldHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l List[entry]
		model := map[int]entry{}
		for range rapid.IntRange(1, 12).Draw(t, "edits") {
			gone, put := drawEntries(t, "gone", 300), drawEntries(t, "put", 300)
			before, text := l, l.String()
			l = l.Edit(gone, put)
			for _, e := range gone {
				delete(model, e.key)
			}
			for _, e := range slices.Backward(put) { // the first of equals counts
				model[e.key] = e
			}
			sound(t, l)
			want := slices.SortedFunc(maps.Values(model), entry.Compare)
			if got := slices.Collect(l.All()); !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			if before.String() != text {
				t.Fatalf("an edit changed what it was made of, from %s to %v", text, before)
			}
		}
		for key := range 401 {
			if _, there := model[key]; l.Has(entry{key: key}) != there {
				t.Fatalf("%d: %v, want %v", key, !there, there)
			}
		}
	})
}

func TestADifferenceLeadsFromOneListToTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Of(drawEntries(t, "a", 500)...)
		b := a.Edit(drawEntries(t, "gone", 20), drawEntries(t, "put", 20))
		if rapid.Bool().Draw(t, "unrelated") {
			b = Of(drawEntries(t, "b", 500)...)
		}
		gone, put := Diff(a, b)
		if got := a.Edit(gone, put); !got.Equal(b) {
			t.Fatalf("got %v, want %v", got, b)
		}
		have := slices.Collect(a.All())
		for _, e := range gone {
			if !slices.Contains(have, e) {
				t.Fatalf("%v goes, and was never there", e)
			}
		}
		for _, e := range put {
			if slices.Contains(have, e) {
				t.Fatalf("%v comes, and is there", e)
			}
		}
		if !slices.IsSortedFunc(gone, entry.Compare) || !slices.IsSortedFunc(put, entry.Compare) {
			t.Fatalf("not in order: %v, %v", gone, put)
		}
		if gone, put = Diff(b, Of(slices.Collect(b.All())...)); len(gone)+len(put) > 0 {
			t.Fatalf("between equal lists: %v, %v", gone, put)
		}
	})
}

func TestTheNextItem(t *testing.T) {
	var all []entry
	for i := range 1000 {
		all = append(all, entry{key: 2 * i})
	}
	l := Of(all...)
	for x := -1; x < 1999; x++ {
		if next, ok := l.Next(entry{key: x}); !ok || next.key != (x+1)/2*2 {
			t.Fatalf("next to %d: %v, %v", x, next, ok)
		}
	}
	if next, ok := l.Next(entry{key: 1999}); ok {
		t.Errorf("%v comes after the last one", next)
	}
	if next, ok := (List[entry]{}).Next(entry{}); ok {
		t.Errorf("%v is in an empty list", next)
	}
}

// BenchmarkEditAndDiff is what one change costs, and what it costs to find it.
func BenchmarkEditAndDiff(b *testing.B) {
	for _, n := range []int{0, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n, " items"), func(b *testing.B) {
			var all []entry
			for i := range n {
				all = append(all, entry{key: i})
			}
			l := Of(all...)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				next := l.Edit(nil, []entry{{n / 2, i + 1}})
				if _, put := Diff(l, next); len(put) != 1 {
					b.Fatal(put)
				}
				l = next
			}
		})
	}
}
