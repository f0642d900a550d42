package apiserver

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/components"
)

// Process is a program that runs for the time of a test.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Run starts a program for the time of a test. What it wrote is shown when the
// test fails.
func (s *Server) Run(program string, args ...string) (stop func()) {
	s.t.Helper()
	return s.Spawn(program, args...).Kill
}

// Log returns all that programs of that name wrote.
func (s *Server) Log(name string) string {
	data, err := os.ReadFile(s.file(name + ".log"))
	if err != nil {
		return ""
	}
	return string(data)
}

// Kubectl runs kubectl as admin.
func (s *Server) Kubectl(args ...string) string {
	s.t.Helper()
	out, err := exec.Command(find(s.t, "kubectl"), append([]string{"--kubeconfig=" + s.Kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Stop ends all that was started, before the test does.
func (s *Server) Stop() {
	for _, p := range s.processes {
		p.Kill()
	}
}

// Shell runs a line as an admin would who has kubectl and a kubeconfig, in a folder,
// and returns what it wrote.
func (s *Server) Shell(folder, line string) string {
	s.t.Helper()
	cmd := exec.Command("sh", "-e", "-c", line)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "PATH="+filepath.Dir(find(s.t, "kubectl"))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// run starts a program of the control plane.
func (s *Server) run(program string, args ...string) *Process {
	s.t.Helper()
	return s.spawn(components.Environment(), find(s.t, program), args...)
}

// Spawn starts a program as Run does, and returns its process.
func (s *Server) Spawn(program string, args ...string) *Process {
	s.t.Helper()
	return s.spawn(nil, program, args...)
}

func (s *Server) spawn(env []string, program string, args ...string) *Process {
	s.t.Helper()
	name := filepath.Base(program)
	p := s.launch(s.file(name+".log"), env, program, args...)
	s.processes = append(s.processes, p)
	s.t.Cleanup(func() {
		p.Kill()
		s.tellIfFailed(s.file(name + ".log"))
	})
	return p
}

// launch starts a program that ends with this process at the latest.
func (s *Server) launch(file string, env []string, program string, args ...string) *Process {
	s.t.Helper()
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	p := &Process{t: s.t, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = log, log, append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.cmd.Wait()
		log.Close()
	}()
	return p
}

// tellIfFailed shows the end of a log when the test has failed.
func (s *Server) tellIfFailed(file string) {
	if s.t.Failed() {
		s.t.Logf("the last of %s:\n%s", strings.TrimSuffix(filepath.Base(file), ".log"), tail(file))
	}
}

// Kill ends the program at once and waits until it has ended.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Pids are the numbers of the processes of the API server and of its datastore.
func (s *Server) Pids() (server, store int) { return s.server.Pid(), s.store.Pid() }

// Terminate asks the program to end, and waits until it has.
func (p *Process) Terminate() {
	p.t.Helper()
	p.AskToEnd()
	p.Ended(30 * time.Second)
}

// AskToEnd asks the program to end.
func (p *Process) AskToEnd() { p.signal(syscall.SIGTERM) }

// ExitCode is that of a program that has ended; -1 where a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Pause stops the program where it is, as a host does that has no time for it.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume has the program go on where it was stopped.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

// Running reports whether the program has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal to a program that may have ended meanwhile.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Ended waits until the program has ended by itself, and fails the test if it does
// not in time.
func (p *Process) Ended(limit time.Duration) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Fatalf("%s has not ended within %v", p.cmd.Path, limit)
	}
}

func tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// find returns the file of a program of the control plane.
func find(t testing.TB, program string) string {
	t.Helper()
	of := components.File
	if program == "kine" {
		of = func(string) (string, error) { return components.Kine(t.Context()) }
	}
	file, err := of(program)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// writeServiceAccountKey writes the key that signs tokens of service accounts.
func (s *Server) writeServiceAccountKey() {
	s.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		s.t.Fatal(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	s.write(s.own("service-account.key"), string(pem.EncodeToMemory(block)))
}
