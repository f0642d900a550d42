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

func TestRoutersWhoseSessionsAreDownAreReadFromTheMessage(t *testing.T) {
	for message, want := range map[string]struct {
		routers []string
		more    bool
	}{
		"routes 8/8, sessions 2/2": {},
		"":                         {},
		"routes 8/8, sessions 0/3: a/10.0.0.1 ASNMismatch, b/10.0.0.2 NoAnswer, b/fd00::2 Refused; on trial 1: a down": {[]string{"a", "b"}, false},
		"routes 8/8, sessions 0/12: tor/10.0.0.11 NoAnswer, and 4 more":                                                {[]string{"tor"}, true},
		"routes 8/8, sessions 1/2 with all pod CIDRs: a/10.0.0.1 lacks pod CIDRs; kernel settings: x is 1":             {[]string{"a"}, false},
	} {
		if routers, more := SessionsDown(message); !reflect.DeepEqual(routers, want.routers) || more != want.more {
			t.Errorf("%q: %q, %v", message, routers, more)
		}
	}
}
