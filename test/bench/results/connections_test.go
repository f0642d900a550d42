package results

import (
	"strings"
	"testing"
)

func TestConnectionsOfAllRoundsAreAddedUp(t *testing.T) {
	all, measured := Tally{}, New(2)
	all.Add("plinth", Connections{Opened: 90, Lost: 1, Stalled: 1})
	all.Add("metallb", Connections{Opened: 100})
	all.Add("plinth", Connections{Opened: 110, Cut: 2})
	all.Into(measured)
	got := map[string]float64{}
	for unit, value := range measured.Of("plinth").medians() {
		got[unit] = value
	}
	if len(got) != 4 || got["connections"] != 200 || got["lost"] != 1 || got["cut"] != 2 || got["stalled"] != 1 {
		t.Error(got)
	}
}

func TestWhereTooManyConnectionsAreExcusedTheRestSaysLittle(t *testing.T) {
	all := Tally{"few": {Opened: 200, Cut: 1, Stalled: 1}}
	if err := all.TooManyExcused(0.01); err != nil {
		t.Error(err)
	}
	all.Add("few", Connections{Stalled: 1})
	if err := all.TooManyExcused(0.01); err == nil || !strings.Contains(err.Error(), "few: of 200 connections 1 were cut and 2 stalled") {
		t.Error(err)
	}
	all.Add("none", Connections{})
	all.Add("few", Connections{Opened: 200})
	if err := all.TooManyExcused(0.01); err == nil || err.Error() != "none: no connection was opened" {
		t.Error(err)
	}
}
