package node

import (
	"fmt"
	"log/slog"
	"testing"

	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory/source"
)

func TestOnlyMachinesThatNewlyLackANodeAreWorthAnEvent(t *testing.T) {
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("m%02d", i))
	}
	recorder := record.NewFakeRecorder(1)
	c := New(Options{Namespace: "kube-system", InForce: &source.InForce{}, Log: slog.Default()})
	c.cluster.Recorder = recorder
	u := newUnmatched(c)
	for _, step := range []struct {
		machines []string
		want     string
	}{
		{nil, ""},
		{[]string{"a", "b"}, "Warning MachineWithoutNode no Node has joined as a, b"},
		{[]string{"a", "b"}, ""},
		{[]string{"b"}, ""},
		{[]string{"a", "b"}, "Warning MachineWithoutNode no Node has joined as a"},
		{many, "Warning MachineWithoutNode no Node has joined as m00, m01, m02, m03, m04, m05, m06, m07, m08, m09 and 2 more"},
	} {
		u.reportLacking(step.machines)
		got := ""
		select {
		case got = <-recorder.Events:
		default:
		}
		if got != step.want {
			t.Errorf("%v: %q, want %q", step.machines, got, step.want)
		}
	}
}
