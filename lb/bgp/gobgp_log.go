package bgp

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// gobgpLog reads in GoBGP's log why a session is down, which GoBGP reports nowhere
// else. The texts are those of v4.8.0; a test against real routers holds them.
type gobgpLog struct {
	log        *slog.Logger
	beforeDial func() // called each time that GoBGP is about to connect, and waited for; nil: nothing
	beforeUp   func() // the same once both ends have agreed, before GoBGP announces anything

	mu   sync.Mutex
	seen evidence
}

// evidence holds the facts that GoBGP logged about an attempt or a session.
type evidence struct {
	dial           string        // the error of the last attempt to connect
	sent, received *notification // the last of either
	holdExpired    bool          // the hold timer expired
}

// isCollision reports whether the router refused an attempt because of a collision. Where this machine
// accepts connections as well, one of two always ends so.
func (e evidence) isCollision() bool { return e.received != nil && e.received.isCollision() }

// notification is a NOTIFICATION (RFC 4271, section 4.5), and the text of RFC 9003.
type notification struct {
	code, subcode uint8
	text          string
	data          string // the octets after the subcode, as they came, unless they are the text
}

// String returns code and subcode with their names, and the text.
func (n notification) String() string {
	name := gobgp.NewNotificationErrorCode(n.code, n.subcode).String()
	if n.text != "" {
		name += `: "` + n.text + `"`
	}
	return name
}

// logger returns the logger for GoBGP.
func (l *gobgpLog) logger() *slog.Logger { return slog.New(gobgpHandler{l}) }

// evidence returns the evidence that was logged so far.
func (l *gobgpLog) evidence() evidence {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// record reads the evidence in a record of GoBGP's log.
func (l *gobgpLog) record(rec slog.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch rec.Message {
	case "Peer Up": // before anything that comes over the session
		l.seen = evidence{} // what came before does not explain how it ends
	case "failed to connect":
		l.seen.dial = attrsOf(rec)["Error"].String()
	case "sent notification":
		l.seen.sent = notificationOf(attrsOf(rec))
	case "received notification":
		l.seen.received = notificationOf(attrsOf(rec))
	case "hold timer expired":
		l.seen.holdExpired = true
	}
}

// attrsOf returns the attributes of a record by their keys.
func attrsOf(r slog.Record) map[string]slog.Value {
	attrs := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool { attrs[a.Key] = a.Value; return true })
	return attrs
}

// notificationOf reads a NOTIFICATION in the attributes of its record.
func notificationOf(attrs map[string]slog.Value) *notification {
	octet := func(key string) uint8 {
		if v := attrs[key]; v.Kind() == slog.KindInt64 {
			return uint8(v.Int64())
		}
		return 0
	}
	read := notification{code: octet("Code"), subcode: octet("Subcode")}
	if text, ok := attrs["Communicated-Reason"]; ok {
		read.text = printable(text.String())
	} else if data, ok := attrs["Data"].Any().([]byte); ok {
		read.data = string(data)
	}
	return &read
}

// printable keeps a router's text from writing control characters into our logs.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return '?'
		}
		return r
	}, text)
}

// gobgpHandler is a slog.Handler that records the evidence, and passes on at Debug what GoBGP
// logs at Info or above: what matters to an operator, a session logs itself.
type gobgpHandler struct{ to *gobgpLog }

func (h gobgpHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h gobgpHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h gobgpHandler) WithGroup(string) slog.Handler            { return h }

func (h gobgpHandler) Handle(ctx context.Context, rec slog.Record) error {
	if rec.Message == "try to connect" && h.to.beforeDial != nil {
		h.to.beforeDial()
	}
	if rec.Message == "Peer Up" && h.to.beforeUp != nil {
		h.to.beforeUp()
	}
	h.to.record(rec)
	if rec.Level >= slog.LevelInfo && h.to.log.Enabled(ctx, slog.LevelDebug) {
		h.to.log.DebugContext(ctx, "relayed GoBGP", "message", rec.Message)
	}
	return nil
}
