package container

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/test/lab/netns"
)

// insideVariable makes this test's binary, started once more, tell what it may do.
const insideVariable = "PLINTH_TEST_INSIDE"

func TestMain(m *testing.M) {
	if os.Getenv(insideVariable) != "" {
		for _, a := range attempts {
			fmt.Println(a.name+":", a.do())
		}
		return
	}
	os.Exit(m.Run())
}

var attempts = []struct {
	name string
	do   func() error
	want error
}{
	{"write to the root", func() error { return os.WriteFile("/x", nil, 0o600) }, unix.EROFS},
	{"write to a folder that is given for reading", func() error { return os.WriteFile("/given/x", nil, 0o600) }, unix.EROFS},
	{"write to a folder that is given for writing", func() error { return os.WriteFile("/state/x", nil, 0o600) }, nil},
	{"write a sysctl", func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }, unix.EROFS},
	{"look at the host's files", func() error { _, err := os.Stat("/root"); return err }, unix.ENOENT},
	{"open a raw socket", func() error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }, unix.EPERM},
	{"open a socket to a hypervisor", func() error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }, unix.EPERM},
	{"open a socket of routes", func() error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) }, nil},
	{"mark a packet, which needs NET_ADMIN", mark, nil},
	{"mount", func() error { return unix.Mount("tmpfs", "/proc", "tmpfs", 0, "") }, unix.EPERM},
	{"make a user namespace", func() error { return unix.Unshare(unix.CLONE_NEWUSER) }, unix.EPERM},
	{"make a namespace by clone", func() error {
		cmd := exec.Command("/program")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	}, unix.EPERM},
	{"load a program into the kernel", func() error { return call(unix.SYS_BPF) }, unix.EPERM},
	{"call clone3, whose flags no filter sees", func() error { return call(unix.SYS_CLONE3) }, unix.ENOSYS},
}

func socket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

func mark() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err == nil {
		err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 114), unix.Close(fd))
	}
	return err
}

func call(number uintptr) error {
	if _, _, err := unix.Syscall(number, 0, 0, 0); err != 0 {
		return err
	}
	return nil
}

func TestAProgramMayDoWhatItWasGivenAndNoMore(t *testing.T) {
	space := "plt-container-" + strings.ToLower(rand.Text()[:6])
	t.Cleanup(func() {
		if err := netns.Delete(space); err != nil {
			t.Error(err)
		}
	})
	if err := netns.Add(space); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := Container{Root: t.TempDir(), Capabilities: []string{"NET_ADMIN"}, Mounts: []Mount{
		{From: program, To: "/program"}, {From: t.TempDir(), To: "/given"}, {From: t.TempDir(), To: "/state", Write: true},
	}}
	for _, libraries := range []string{"/lib", "/lib64"} { // of a test's binary
		if _, err := os.Stat(libraries); err == nil {
			c.Mounts = append(c.Mounts, Mount{From: libraries, To: libraries})
		}
	}
	var out strings.Builder
	cmd := exec.Command("/program")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = []string{insideVariable + "=1"}, "/", &out, &out
	if err := c.Start(space, cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err, out.String())
	}
	for _, a := range attempts {
		_, answer, _ := strings.Cut(out.String(), a.name+": ")
		answer, _, _ = strings.Cut(answer, "\n")
		want := "<nil>"
		if a.want != nil {
			want = a.want.Error()
		}
		if !strings.HasSuffix(answer, want) {
			t.Errorf("%s: %q, want %q", a.name, answer, want)
		}
	}
	if left, err := os.ReadDir(c.Root); err != nil || len(left) > 0 {
		t.Errorf("the folder that the root was mounted on holds %v for all others: %v", left, err)
	}
}

func TestACapabilityThatNobodyAsksForIsRefused(t *testing.T) {
	err := Container{Capabilities: []string{"SYS_ADMIN"}}.Start("none", exec.Command("/program"))
	if err == nil || !strings.Contains(err.Error(), "SYS_ADMIN") {
		t.Error(err)
	}
}
