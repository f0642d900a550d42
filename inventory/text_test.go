package inventory_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
)

func TestATextIsCutAtACharacter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, most := rapid.String().Draw(t, "text"), rapid.IntRange(3, 40).Draw(t, "bytes")
		cut, short := inventory.CutText(text, most), inventory.ShortenText(text, most)
		if len(cut) > most || len(short) > most || !utf8.ValidString(cut) || !utf8.ValidString(short) || !strings.HasPrefix(text, cut) {
			t.Fatalf("%q in %d bytes is %q and %q", text, most, cut, short)
		}
		if whole := len(text) <= most; whole != (cut == text) || whole != (short == text) || !whole && !strings.HasSuffix(short, "…") {
			t.Fatalf("%q in %d bytes is %q and %q", text, most, cut, short)
		}
	})
}
