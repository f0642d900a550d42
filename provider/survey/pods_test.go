package survey

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestAPodThatEndsSaysWhatItSaidLast has pods as a kubelet shows them.
func TestAPodThatEndsSaysWhatItSaidLast(t *testing.T) {
	const backOff = "back-off 40s restarting failed container=manager pod=plinth-cloud-controller-manager-7d_plinth-system(0b)"
	const taken = "another program of this machine has port 10258 of 127.0.0.1"
	log := "I1126 20:51:00.000000 1 serving.go:386] Generated self-signed cert in-memory\nE1126 20:51:01.000000 1 run.go:72] \"command failed\" err=\"" + taken + "\"\n"
	waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: backOff}}
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	ended := func(code int32, reason, message string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
	}
	for name, c := range map[string]struct {
		state, last v1.ContainerState
		says        []string // empty: it runs
		not         string
	}{
		"it waits to be started again":      {waits, ended(1, "Error", log), []string{"CrashLoopBackOff: " + backOff, "it ended with code 1: E1126", taken}, "self-signed"},
		"it has just ended":                 {ended(1, "Error", log), v1.ContainerState{}, []string{"it ended with code 1: E1126", taken}, "self-signed"},
		"it panicked":                       {waits, ended(2, "Error", "I1126 a line\npanic: nil map [recovered]\n\ngoroutine 1 [running]:\nmain.main()\n\tmain.go:1 +0x1\n"), []string{"code 2: panic: nil map"}, "main.go"},
		"it was killed":                     {waits, ended(137, "OOMKilled", ""), []string{"CrashLoopBackOff", "it ended with code 137: OOMKilled"}, ""},
		"it ended by itself":                {waits, ended(0, "Completed", ""), []string{"CrashLoopBackOff", "it ended with code 0: Completed"}, ""},
		"it said more than fits":            {waits, ended(1, "Error", strings.Repeat("x", 2048)), []string{"xxx..."}, strings.Repeat("x", 600)},
		"it runs again":                     {runs, ended(1, "Error", log), nil, ""},
		"its image is not there":            {v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}, v1.ContainerState{}, []string{"ImagePullBackOff: no such image"}, "ended"},
		"what was said does not look tidy":  {waits, ended(1, "Error", "\n\nError: no\n\n"), []string{"code 1: Error: no"}, ""},
		"nothing is known of its first end": {waits, v1.ContainerState{}, []string{"CrashLoopBackOff: " + backOff}, "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			got := whyPending(&v1.Pod{Status: v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "manager", State: c.state, LastTerminationState: c.last}}}})
			if len(c.says) == 0 && got != "" || c.not != "" && strings.Contains(got, c.not) || strings.Contains(got, "\n") {
				t.Errorf("it says %q", got)
			}
			for _, want := range c.says {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in %q", want, got)
				}
			}
		})
	}
}
