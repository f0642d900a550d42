package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Strings are the texts that some values print, in their order; nil: there are no values.
func Strings[T fmt.Stringer](all []T) []string {
	var texts []string
	for _, one := range all {
		texts = append(texts, one.String())
	}
	return texts
}

// SortedOnce sorts values in place, and returns each of them once.
func SortedOnce[T cmp.Ordered](all []T) []T {
	slices.Sort(all)
	return slices.Compact(all)
}

// Find returns the first of some values that is such a one; false: none is.
func Find[T any](all []T, is func(T) bool) (T, bool) {
	i := slices.IndexFunc(all, is)
	if i < 0 {
		var none T
		return none, false
	}
	return all[i], true
}

// CutText is the beginning of a text in at most so many bytes, which end with a character.
func CutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// ShortenText is [CutText] that tells that it cut something, by three dots (U+2026) within these bytes.
func ShortenText(text string, most int) string {
	const dots = "…"
	if len(text) <= most {
		return strings.ToValidUTF8(text, "")
	}
	return CutText(text, most-len(dots)) + dots
}
