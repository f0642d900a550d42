package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	classes    = "/sys/class"
	systemUUID = classes + "/dmi/id/product_uuid" // where the kubelet looks for it
)

// mountFirmware shows the machine a system UUID of its own, in the place of the host's.
func (c Config) mountFirmware() error {
	if _, err := os.Stat(systemUUID); errors.Is(err, os.ErrNotExist) {
		if err := makeDMI(); err != nil {
			return err
		}
	}
	own := filepath.Join(c.Disk, "product_uuid") // on the disk only because it has to be somewhere
	if err := os.WriteFile(own, []byte(c.SystemUUID+"\n"), 0o400); err != nil {
		return err
	}
	return unix.Mount(own, systemUUID, "", unix.MS_BIND, "")
}

// makeDMI adds a folder to those of /sys/class on a host without SMBIOS. Nobody can
// make one in sysfs, so a file system with all that was there, and one more, lies over it.
func makeDMI() error {
	there, err := os.Open(classes)
	if err != nil {
		return err
	}
	defer there.Close()
	names, err := there.Readdirnames(-1)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", classes, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, name := range names {
		before, now := fmt.Sprintf("/proc/self/fd/%d/%s", there.Fd(), name), filepath.Join(classes, name)
		if err := os.Mkdir(now, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(before, now, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", now, err)
		}
	}
	return errors.Join(os.MkdirAll(filepath.Dir(systemUUID), 0o755), os.WriteFile(systemUUID, nil, 0o400))
}
