package bgp

import (
	"log/slog"
	"testing"
)

// logger writes to the test's log, in all detail.
func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
