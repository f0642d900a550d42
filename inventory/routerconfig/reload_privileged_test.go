//go:build privileged

package routerconfig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Operators load a changed text with frr-reload, which compares it with what FRR
// says it runs. What FRR says in other words than ours would be taken away, or put
// in anew, at each reload.
func TestFRRSaysWhatItWasTold(t *testing.T) {
	for _, file := range []string{
		"testdata/golden/two-rack/tor-r01.frr.conf",
		"testdata/golden/every-option/core.frr.conf",
		"testdata/golden/every-option/edge.frr.conf",
		"testdata/golden/every-option/spine.frr.standalone.conf",
	} {
		t.Run(file, func(t *testing.T) {
			f := startFRR(t)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f.write("frr.conf", string(text))
			if out := f.run("vtysh", "--vty_socket", f.dir, "--config_dir", f.dir, "-f", f.path("frr.conf")); strings.Contains(out, "%") {
				t.Fatalf("FRR does not take it:\n%s", out)
			}
			out := f.run("/usr/lib/frr/frr-reload.py", "--test", "--stdout", "--vty_socket", f.dir, "--confdir", f.dir, "--rundir", f.dir, f.path("frr.conf"))
			gone, added, _ := strings.Cut(out, "Lines To Add")
			_, gone, _ = strings.Cut(gone, "Lines To Delete")
			if ours(gone) {
				t.Errorf("a reload would delete:\n%s", gone)
			}
			for line := range strings.Lines(added) {
				// Defaults, which FRR does not say; said again, they change nothing.
				word := strings.TrimSpace(line)
				if ours(word) && !strings.HasSuffix(word, " activate") {
					t.Errorf("a reload would add %q in\n%s", word, added)
				}
			}
		})
	}
}

// ours reports whether lines of what we print are among these.
func ours(lines string) bool {
	return strings.Contains(lines, "PLINTH") || strings.Contains(lines, "aggregate-address")
}

// frr is FRR in a network namespace of its own.
type frr struct {
	t         *testing.T
	namespace string
	dir       string
}

func startFRR(t *testing.T) *frr {
	t.Helper()
	f := &frr{t: t, namespace: fmt.Sprintf("plt-%x", time.Now().UnixNano()), dir: t.TempDir()}
	f.must("ip", "netns", "add", f.namespace)
	t.Cleanup(func() { f.must("ip", "netns", "del", f.namespace) })
	// FRR gives up root, and wants to write beside its configuration.
	f.must("chmod", "755", f.dir, filepath.Dir(f.dir)) // the test's own two folders, wherever they lie
	f.must("chown", "frr:frr", f.dir)
	f.write("empty.conf", "")
	f.write("vtysh.conf", "")
	for _, daemon := range []string{"zebra", "bfdd", "bgpd"} {
		f.daemon(daemon)
	}
	return f
}

// daemon starts one of FRR's daemons and waits until it answers.
func (f *frr) daemon(name string) {
	f.t.Helper()
	args := []string{"netns", "exec", f.namespace, "/usr/lib/frr/" + name, "-f", f.path("empty.conf"), "-i", f.path(name + ".pid"),
		"--vty_socket", f.dir, "-z", f.path("zserv.api"), "-P", "0"}
	if name == "bfdd" {
		args = append(args, "--bfdctl", f.path("bfdd.sock"))
	}
	cmd := exec.Command("ip", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(f.path(name + ".vty")); err == nil {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("%s does not answer", name)
		}
	}
}

func (f *frr) path(name string) string { return filepath.Join(f.dir, name) }

func (f *frr) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *frr) must(command ...string) string {
	f.t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return string(out)
}

// run runs a command beside FRR.
func (f *frr) run(command ...string) string {
	f.t.Helper()
	return f.must(append([]string{"ip", "netns", "exec", f.namespace}, command...)...)
}
