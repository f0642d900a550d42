package inventory

import "strings"

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
