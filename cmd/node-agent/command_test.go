package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestCommandLineThatCannotBeCarriedOutIsAUsageError(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no node name", nil, "--node-name is not given"},
		{"an unknown way to stop", []string{"--node-name=w1", "--on-term=explode"}, `"explode" is neither "leave" nor "withdraw"`},
		{"a negative drain time", []string{"--node-name=w1", "--drain-time=-1s"}, "-1s is negative"},
		{"a port that is none", []string{"--node-name=w1", "--bgp-port=70000"}, "70000 is not a port"},
		{"a log level that is none", []string{"--node-name=w1", "--log-level=loud"}, "--log-level"},
		{"a log format that is none", []string{"--node-name=w1", "--log-format=xml"}, "--log-format"},
		{"an unknown flag", []string{"--nodename=w1"}, "unknown flag"},
		{"an argument", []string{"w1"}, "unknown command"},
		{"a protocol beyond a byte", []string{"--route-protocol=300"}, "--route-protocol"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("NODE_NAME", "")
			cmd := newCommand()
			cmd.SetArgs(append([]string{}, tt.args...))
			err := cmd.Execute()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v does not say %q", err, tt.want)
			}
			if got := exitCode(err); got != exitUsage {
				t.Errorf("exit code %d, want %d", got, exitUsage)
			}
		})
	}
}

func TestOtherErrorsAreNotUsageErrors(t *testing.T) {
	if got := exitCode(errors.New("no route to host")); got != exitError {
		t.Errorf("exit code %d", got)
	}
}

func TestHelpNamesEveryFlagAndTheSignals(t *testing.T) {
	cmd, out := newCommand(), &bytes.Buffer{}
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"--node-name", "--namespace", "--kubeconfig", "--listen", "--state-dir", "--bgp-port", "--route-protocol", "--route-metric",
		"--drain-time", "--on-term", "SIGTERM", "SIGUSR1", "cleanup",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help does not name %s", want)
		}
	}
}

func TestReferenceNamesEveryFlag(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	cmd := newCommand()
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(string(page), "`--"+f.Name+"`") {
				t.Errorf("docs/reference/agent.md does not name --%s", f.Name)
			}
		})
	}
}

func TestTheSignalToDrainIsHeardEachTime(t *testing.T) {
	alive := make(chan os.Signal, 1)
	signal.Notify(alive, syscall.SIGUSR1) // it would end the test where nobody listens yet
	defer signal.Stop(alive)
	drains := make(chan struct{}, 1)
	go drainOnSignal(t.Context(), func() { drains <- struct{}{} })
	for n := 1; n <= 2; {
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		select {
		case <-drains:
			n++
		case <-time.After(20 * time.Millisecond): // it may not listen yet
		case <-t.Context().Done():
			t.Fatal("the signal was not heard")
		}
	}
}

func TestScrapersSeeMetricsAlone(t *testing.T) {
	all := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) })
	server := httptest.NewServer(onlyMetrics(all))
	defer server.Close()
	for path, want := range map[string]int{"/metrics": http.StatusOK, "/status": http.StatusNotFound, "/healthz": http.StatusNotFound, "/": http.StatusNotFound} {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, answer.StatusCode, want)
		}
	}
}
