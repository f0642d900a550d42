package bgp

import (
	"context"
	"log/slog"
	"sync"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// notes are what GoBGP writes to its log about why a session is down, and nowhere
// else. The texts are those of v4.8.0; a test against real routers holds them.
type notes struct {
	log        *slog.Logger
	beforeDial func() // called each time that GoBGP is about to connect, and waited for; nil: nothing
	beforeUp   func() // the same once both ends have agreed, before GoBGP announces anything

	mu sync.Mutex
	noted
}

type noted struct {
	dial           string        // the last attempt to connect failed with this
	sent, received *notification // the last of either
	holdExpired    bool          // the hold timer ran out
}

// notification is what RFC 4271, section 4.5, carries, and the text of RFC 9003.
type notification struct {
	code, subcode uint8
	text          string
	data          string // the octets after the subcode, as they came, unless they are the text
}

func (n notification) String() string {
	s := gobgp.NewNotificationErrorCode(n.code, n.subcode).String()
	if n.text != "" {
		s += `: "` + n.text + `"`
	}
	return s
}

func (n *notes) logger() *slog.Logger { return slog.New(noteTaker{n}) }

// read returns what was noted so far.
func (n *notes) read() noted {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.noted
}

func (n *notes) record(r slog.Record) {
	fields := map[string]slog.Value{}
	collect := func() {
		r.Attrs(func(a slog.Attr) bool { fields[a.Key] = a.Value; return true })
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch r.Message {
	case "Peer Up": // before anything that comes over the session
		n.noted = noted{} // what came before does not explain how it ends
	case "failed to connect":
		collect()
		n.dial = fields["Error"].String()
	case "sent notification":
		collect()
		n.sent = readNotification(fields)
	case "received notification":
		collect()
		n.received = readNotification(fields)
	case "hold timer expired":
		n.holdExpired = true
	}
}

func readNotification(fields map[string]slog.Value) *notification {
	n := &notification{}
	if v, ok := fields["Code"]; ok && v.Kind() == slog.KindInt64 {
		n.code = uint8(v.Int64())
	}
	if v, ok := fields["Subcode"]; ok && v.Kind() == slog.KindInt64 {
		n.subcode = uint8(v.Int64())
	}
	if v, ok := fields["Communicated-Reason"]; ok {
		n.text = printable(v.String())
	} else if data, ok := fields["Data"].Any().([]byte); ok {
		n.data = string(data)
	}
	return n
}

// printable keeps a router's text from writing control characters into our logs.
func printable(s string) string {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			r = '?'
		}
		out = append(out, r)
	}
	return string(out)
}

// noteTaker is a slog.Handler that keeps the notes, and passes on at Debug what GoBGP
// finds important: what matters to an operator, a session logs itself.
type noteTaker struct{ n *notes }

func (h noteTaker) Enabled(context.Context, slog.Level) bool { return true }
func (h noteTaker) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h noteTaker) WithGroup(string) slog.Handler            { return h }

func (h noteTaker) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "try to connect" && h.n.beforeDial != nil {
		h.n.beforeDial()
	}
	if r.Message == "Peer Up" && h.n.beforeUp != nil {
		h.n.beforeUp()
	}
	h.n.record(r)
	if r.Level >= slog.LevelInfo && h.n.log.Enabled(ctx, slog.LevelDebug) {
		h.n.log.LogAttrs(ctx, slog.LevelDebug, "gobgp: "+r.Message)
	}
	return nil
}
