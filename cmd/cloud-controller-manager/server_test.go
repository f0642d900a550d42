package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/cloud-provider/options"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

// written is what klog wrote.
type written struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(b)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

func captureLog(t *testing.T) *written {
	w := &written{}
	klog.ClearLogger() // which a test before this one set
	klog.LogToStderr(false)
	klog.SetOutput(w)
	t.Cleanup(func() { klog.LogToStderr(true) })
	return w
}

// TestTheAPIServerIsWaitedFor: nobody listens at first, then a server that is not healthy,
// then one that tells us nothing.
func TestTheAPIServerIsWaitedFor(t *testing.T) {
	log := captureLog(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()

	came := make(chan error, 1)
	go func() { came <- untilItAnswers(t.Context(), &rest.Config{Host: "http://" + address}, time.Hour) }()
	awaitLog(t, log, "connection refused")
	if !strings.Contains(log.String(), "http://"+address) {
		t.Errorf("it does not say whom it waits for: %s", log)
	}

	if listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	codes := make(chan int, 1)
	codes <- http.StatusServiceUnavailable
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		code := <-codes
		codes <- code
		w.WriteHeader(code)
	})}
	go server.Serve(listener)
	defer server.Close()
	awaitLog(t, log, "status 503")
	select {
	case err := <-came:
		t.Fatalf("it does not wait for a server that is not healthy: %v", err)
	default:
	}
	<-codes
	codes <- http.StatusForbidden
	select {
	case err := <-came:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("it waits still: %s", log)
	}
	klog.Flush()
	if n := strings.Count(log.String(), "Waiting for the API server"); n != 2 {
		t.Errorf("%d lines, one for each of two reasons are enough:\n%s", n, log)
	}
}

func awaitLog(t *testing.T, log *written, want string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !strings.Contains(log.String(), want); time.Sleep(10 * time.Millisecond) {
		klog.Flush()
		if time.Now().After(end) {
			t.Fatalf("no word of %q: %s", want, log)
		}
	}
}

// TestASilentServerIsNotWaitedForForEver: it takes connections and answers none.
func TestASilentServerIsNotWaitedForForEver(t *testing.T) {
	log := captureLog(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := untilItAnswers(t.Context(), &rest.Config{Host: "http://" + listener.Addr().String()}, time.Millisecond); err != nil {
		t.Error(err)
	}
	klog.Flush()
	if said := log.String(); !strings.Contains(said, "Going on without an answer") || !strings.Contains(said, listener.Addr().String()) {
		t.Errorf("it says %q", said)
	}
}

func TestACommandWithoutAClusterIsAnError(t *testing.T) {
	o, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	o.Generic.ClientConnection.Kubeconfig = "/nowhere/kubeconfig"
	command := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		t.Error("it ran")
		return nil
	}}
	command.SetArgs([]string{})
	awaitServer(command, o)
	if err := command.Execute(); err == nil || !strings.Contains(err.Error(), "/nowhere/kubeconfig") {
		t.Errorf("it says %v", err)
	}
}

// TestTheFirstLinesAreJSONWhereThatIsAskedFor runs itself: a process takes up the flags of its log once.
func TestTheFirstLinesAreJSONWhereThatIsAskedFor(t *testing.T) {
	const child = "PLINTH_LOGS_AS_ASKED"
	if os.Getenv(child) != "" {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		logsapi.AddFlags(logsapi.NewLoggingConfiguration(), flags)
		if err := errors.Join(flags.Parse([]string{"--logging-format=json"}), logAsAsked(flags)); err != nil {
			t.Fatal(err)
		}
		klog.InfoS("Waiting")
		klog.Flush()
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var line struct{ Msg string }
	if err := json.Unmarshal(said.Bytes(), &line); err != nil || line.Msg != "Waiting" {
		t.Errorf("it says %q: %v", said.String(), err)
	}
}

func TestATakenPortIsNamed(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := other.Addr().(*net.TCPAddr).Port
	for _, address := range []string{"127.0.0.1", "0.0.0.0", "::"} {
		if err := isFree(address, port); err == nil || !strings.Contains(err.Error(), "disable-cloud-controller") || !strings.Contains(err.Error(), strconv.Itoa(port)) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := errors.Join(other.Close(), isFree("127.0.0.1", port), isFree("127.0.0.1", 0)); err != nil {
		t.Errorf("once nobody has it: %v", err)
	}
}
