package bgp

import (
	"log/slog"
	"testing"
)

// logger returns a logger that writes to the test's log, at every level.
func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
