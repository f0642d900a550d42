package bgp

import "log/slog"

// Password is the secret of a session (RFC 2385), of 1 to 80 bytes; empty: none.
type Password string

// redacted is printed in place of a password.
const redacted = "[redacted]"

// String returns "[redacted]", or nothing where there is no password.
func (p Password) String() string {
	if p == "" {
		return ""
	}
	return redacted
}

// GoString keeps the password out of %#v.
func (p Password) GoString() string { return `"` + p.String() + `"` }

// LogValue keeps the password out of structured logs.
func (p Password) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalText keeps the password out of JSON, YAML and the like.
func (p Password) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// reveal returns the password itself, for a socket.
func (p Password) reveal() string { return string(p) }
