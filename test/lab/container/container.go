package container

import (
	"fmt"
	"os/exec"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/test/lab/netns"
)

// Container is what a program is given.
type Container struct {
	Root         string   // an empty folder, which stays empty for all others
	Capabilities []string // as a securityContext names them: "NET_ADMIN"
	Mounts       []Mount
}

// Mount is a file or folder of the host that the program sees.
type Mount struct {
	From, To string
	Write    bool
}

// capabilities are those that a manifest of Plinth's may ask for.
var capabilities = map[string]uintptr{"NET_ADMIN": unix.CAP_NET_ADMIN, "NET_RAW": unix.CAP_NET_RAW, "SYS_NICE": unix.CAP_SYS_NICE}

// Start starts a command inside the network namespace. Its path is one inside the container.
func (c Container) Start(namespace string, cmd *exec.Cmd) error {
	keep := map[uintptr]bool{}
	for _, name := range c.Capabilities {
		number, ok := capabilities[name]
		if !ok {
			return fmt.Errorf("capability %q: no program of Plinth's asks for it", name)
		}
		keep[number] = true
	}
	// All this is the thread's own, which ends with it; the command inherits it.
	return netns.Do(namespace, func() error {
		if err := c.enterRoot(); err != nil {
			return fmt.Errorf("root file system: %w", err)
		}
		if err := dropCapabilities(keep); err != nil {
			return fmt.Errorf("capabilities: %w", err)
		}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
		if err := refuseCalls(); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
		return cmd.Start()
	})
}

// dropCapabilities takes all but some from the bounding set, which is what root has
// after the next exec, and hands down none.
func dropCapabilities(keep map[uintptr]bool) error {
	for number := range uintptr(64) {
		if keep[number] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, number, 0, 0, 0); err == unix.EINVAL {
			break // the kernel knows no capability of that number
		} else if err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	thread := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&thread, &sets[0]); err != nil {
		return err
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	return unix.Capset(&thread, &sets[0])
}
