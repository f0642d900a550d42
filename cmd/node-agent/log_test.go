package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
)

func TestALineOfTheLogIsAnObjectWhereJSONIsAskedFor(t *testing.T) {
	var out strings.Builder
	h, err := logHandler(&out, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(h)
	log.Info("routes changed", "added", 2)
	log.Debug("not wanted")
	var line struct {
		Time, Level, Msg string
		Added            int
	}
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil || line.Msg != "routes changed" || line.Added != 2 || line.Level != "INFO" || line.Time == "" {
		t.Errorf("%v: %+v of\n%s", err, line, &out)
	}
}
