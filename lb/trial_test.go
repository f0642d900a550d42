package lb

import (
	"reflect"
	"testing"
)

func TestAReportOfATrialIsReadAsItWasWritten(t *testing.T) {
	r := TrialReport{"3f2a9c01", map[string]TrialState{"tor-b": TrialDownBefore, "tor-a": TrialUp, "tor-c": TrialDown}}
	message := "routes 8/8, sessions 1/3; " + r.String() + "; and more"
	if want := "on trial 3f2a9c01: tor-a up, tor-b down as before, tor-c down"; r.String() != want {
		t.Errorf("it says %q, want %q", r.String(), want)
	}
	if got, ok := TrialReportIn(message); !ok || !reflect.DeepEqual(got, r) {
		t.Errorf("in %q is %+v", message, got)
	}
	for _, none := range []string{"", "routes 8/8, sessions 2/2", "on trial", "on trial 3f2a9c01"} {
		if got, ok := TrialReportIn(none); ok {
			t.Errorf("in %q is %+v", none, got)
		}
	}
}
