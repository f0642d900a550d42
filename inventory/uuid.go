package inventory

import (
	"encoding/hex"
	"strings"
)

// UUID is a system UUID in the one form in which it is compared, kept and shown: in lower case and with dashes (RFC 9562,
// section 4). Firmware, hypervisors and kernels write it in others. What a Node reports may be no UUID at all; see
// [ReportedUUID]. The zero value is none.
type UUID struct{ text string }

// ParseUUID reads a UUID in any case, with its four dashes or without any.
func ParseUUID(text string) (UUID, bool) {
	low := strings.ToLower(text)
	digits := strings.ReplaceAll(low, "-", "")
	if _, err := hex.DecodeString(digits); err != nil || len(digits) != 32 {
		return UUID{}, false
	}
	dashed := digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]
	return UUID{dashed}, low == dashed || low == digits
}

// ReportedUUID returns the UUID that a Node reports. A text that is no UUID, as of firmware that was never set, is kept in lower
// case, and is that of no machine. All zeros and all Fs are none: boards without a UUID report these (SMBIOS, section 7.2.1), each and every one.
func ReportedUUID(text string) UUID {
	uuid, ok := ParseUUID(text)
	switch {
	case !ok:
		return UUID{strings.ToLower(text)}
	case strings.Trim(uuid.text, "0-") == "" || strings.Trim(uuid.text, "f-") == "":
		return UUID{}
	}
	return uuid
}

// String is the UUID with dashes; empty: there is none.
func (u UUID) String() string { return u.text }

// IsZero reports whether there is none.
func (u UUID) IsZero() bool { return u.text == "" }

// advice returns the match to write for a machine whose Node reports this UUID.
func (u UUID) advice() string {
	if _, ok := ParseUUID(u.text); ok {
		return "write match: {systemUUID: " + u.text + "}"
	}
	return "leave out match, for that is no UUID"
}

// Equal reports whether both are the same number or both none, as == does.
func (u UUID) Equal(other UUID) bool { return u == other }

// MarshalText is the UUID as a file keeps it.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.text), nil }

// UnmarshalText parses the text that MarshalText or an older version has written.
func (u *UUID) UnmarshalText(text []byte) error {
	*u = ReportedUUID(string(text))
	return nil
}
