package labs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// machine is what a lab could leave behind on the machine that it ran on.
type machine struct {
	Namespaces, Links, Routes, Tables, Processes, Folders []string
}

// look takes down what is on this machine, but for things that bear the mark of
// another package's tests.
func look(t *testing.T) machine {
	t.Helper()
	names, err := netns.Names()
	must(t, err)
	var m machine
	m.Namespaces = names
	m.Links = lines(t, "ip", "-o", "link")
	m.Routes = append(lines(t, "ip", "route"), lines(t, "ip", "-6", "route")...)
	m.Tables = lines(t, "nft", "list", "tables")
	m.Folders, err = filepath.Glob("/run/plinth-lab/*/*")
	must(t, err)
	crashes, err := filepath.Glob("/var/tmp/frr/*")
	must(t, err)
	// What belongs to a daemon that runs is that of another lab, or of the host.
	m.Folders = append(m.Folders, slices.DeleteFunc(crashes, func(folder string) bool {
		daemon, pid, _ := strings.Cut(filepath.Base(folder), ".")
		runs, err := os.ReadFile("/proc/" + pid + "/comm") // a number is given again, to other programs too
		return err == nil && strings.TrimSpace(string(runs)) == daemon
	})...)
	for _, p := range lines(t, "ps", "-eo", "args") {
		if strings.Contains(p, "plinth") && strings.Contains(p, "traces") {
			m.Processes = append(m.Processes, p)
		}
	}
	for _, list := range []*[]string{&m.Namespaces, &m.Links} {
		*list = slices.DeleteFunc(*list, func(s string) bool { return strings.Contains(s, "plt-") })
		slices.Sort(*list)
	}
	return m
}

// without leaves out folders that are gone: those of another lab that was taken down
// meanwhile, or whose daemon's number another process has now.
func (m machine) without(before machine) machine {
	fresh := slices.DeleteFunc(m.Folders, func(f string) bool { return slices.Contains(before.Folders, f) })
	m.Folders = slices.Concat(before.Folders, fresh)
	return m
}

func lines(t *testing.T, command ...string) []string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).Output()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(command, " "), err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

const traces = "traces"

func TestDownLeavesNothingBehind(t *testing.T) {
	before := look(t)
	l, err := lab.Start(t.Context(), lab.Homelab(), lab.Options{Name: traces})
	t.Cleanup(func() { lab.Down(context.Background(), traces) })
	must(t, err)
	must(t, l.StartPlinth(t.Context(), lab.Inventory(l.Topology)))
	must(t, l.RunWeb(t.Context(), lab.Web{Name: "web", Replicas: 3}))
	vips, err := l.Expose(t.Context(), lab.LoadBalancer("web", "web"))
	must(t, err)
	must(t, l.WaitAnnounced(t.Context(), vips[0]))
	for _, m := range l.Topology.Machines() {
		must(t, l.KillMachine(t.Context(), m.Name)) // frozen processes go too
	}
	must(t, l.Down(t.Context()))
	if diff := cmp.Diff(before, look(t).without(before)); diff != "" {
		t.Errorf("the machine before and after (-before +after):\n%s", diff)
	}
	must(t, lab.Down(t.Context(), traces)) // a second time, and there is nothing to do
}

// makerVariable makes this test's binary, started once more, build a lab and wait
// to be killed.
const makerVariable = "PLINTH_TEST_LAB_MAKER"

func makeAndHang(ctx context.Context) {
	_, err := lab.Start(ctx, lab.Homelab(), lab.Options{Name: traces})
	fmt.Fprintln(os.Stderr, "this process should have been killed:", err)
	os.Exit(1)
}

func TestALabIsRemovedThoughItsMakerWasKilled(t *testing.T) {
	before := look(t)
	t.Cleanup(func() { lab.Down(context.Background(), traces) })
	for _, moment := range []struct {
		name string
		came func() bool
	}{
		{"while it builds the network", func() bool { return netns.Exists("plinth.traces.client") }},
		{"while the control plane starts", func() bool { return recorded(t, "kube-apiserver") }},
	} {
		t.Run(moment.name, func(t *testing.T) {
			maker := exec.Command(os.Args[0])
			maker.Env = append(os.Environ(), makerVariable+"=1")
			must(t, maker.Start())
			must(t, lab.Within(t.Context(), time.Minute, func(context.Context) error {
				if !moment.came() {
					return errors.New("the moment has not come")
				}
				return nil
			}))
			must(t, maker.Process.Signal(syscall.SIGKILL))
			maker.Wait()
			must(t, lab.Down(t.Context(), traces))
			if diff := cmp.Diff(before, look(t).without(before)); diff != "" {
				t.Errorf("the machine before and after (-before +after):\n%s", diff)
			}
		})
	}
}

// recorded reports whether the lab's record names a process.
func recorded(t *testing.T, process string) bool {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/run/plinth-lab/%s/lab.json", traces))
	return err == nil && strings.Contains(string(data), process)
}
