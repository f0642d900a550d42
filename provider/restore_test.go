package provider

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRestoreIsToldFromAWatchThatIsLate(t *testing.T) {
	type versions = map[string]string
	for _, tt := range []struct {
		name        string
		known, live versions
		newest      string
		differs     versions
		proof       bool
	}{
		{"all is known as it is", versions{"d/a": "5"}, versions{"d/a": "5"}, "9", versions{}, false},
		{"a change has not been seen yet", versions{"d/a": "5"}, versions{"d/a": "7"}, "9", versions{"d/a": "5 7"}, false},
		{"a new one has not been seen yet", versions{}, versions{"d/a": "7"}, "9", versions{"d/a": " 7"}, false},
		{"one that went has not been seen to go, or never was", versions{"d/a": "5"}, versions{}, "9", versions{"d/a": "5 "}, false},
		{"one is newer than it is", versions{"d/a": "10"}, versions{"d/a": "9"}, "11", nil, true},
		{"one is newer than all", versions{"d/a": "10"}, versions{}, "9", nil, true},
	} {
		differs, proof := differ(tt.known, tt.live, tt.newest)
		if d := cmp.Diff(tt.differs, differs); d != "" || proof != tt.proof {
			t.Errorf("%s: proof %v, %s", tt.name, proof, d)
		}
	}
}

func TestOnlyWhatDiffersInTheSameWayForLongIsCounted(t *testing.T) {
	got := common(map[string]string{"a": "1 2", "b": "1 2", "c": "1 "}, map[string]string{"a": "1 2", "b": "2 2", "d": "1 "})
	if d := cmp.Diff(map[string]string{"a": "1 2"}, got); d != "" {
		t.Error(d)
	}
}
