package upstream

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"

	"plinth.dev/plinth/test/lab"
)

// agnhostImage is the name under which the tests of Kubernetes 1.37.1 look for the
// image of their pods (test/utils/image/manifest.go).
const agnhostImage = "registry.k8s.io/e2e-test-images/agnhost:2.66.1"

// applets are the programs of busybox that the tests call in their pods.
var applets = []string{"cat", "sleep", "hostname", "ip", "ls", "grep", "seq", "timeout", "date", "tail", "head", "true", "echo", "mkdir", "rm", "touch", "kill", "ps"}

// programs are those that busybox has no match for: the tests use flags of OpenBSD's
// netcat, the shell of busybox calls its own programs before those of the image, and a
// static program of glibc's cannot look names up.
var programs = map[string]string{"/usr/bin/curl": "/usr/bin/curl", "/usr/bin/wget": "/usr/bin/wget", "/bin/nc.openbsd": "/bin/nc", "/bin/dash": "/bin/sh"}

// writeAgnhost writes an archive with the image of the tests' pods: agnhost, with a
// shell and what the tests call in it beside it, from Debian's packages.
func writeAgnhost(ctx context.Context, agnhost, archive string) error {
	files := map[string]lab.File{"/bin/busybox": {From: "/bin/busybox", To: "/bin/busybox"}}
	for _, name := range applets {
		files["/bin/"+name] = lab.File{Link: "busybox", To: "/bin/" + name}
	}
	for from, to := range programs {
		files[to] = lab.File{From: from, To: to}
		libraries, err := exec.CommandContext(ctx, "ldd", from).Output()
		if err != nil {
			return fmt.Errorf("ldd %s: %w", from, err)
		}
		for _, m := range regexp.MustCompile(`(/\S+) \(0x`).FindAllStringSubmatch(string(libraries), -1) {
			real, err := filepath.EvalSymlinks(m[1])
			if err != nil {
				return err
			}
			files[m[1]] = lab.File{From: real, To: m[1]}
		}
	}
	// GNU's wget tries twenty times unless it is told otherwise; that of the original image once.
	settings := filepath.Join(filepath.Dir(archive), "wgetrc")
	if err := os.WriteFile(settings, []byte("tries = 1\n"), 0o644); err != nil {
		return err
	}
	files["/etc/wgetrc"] = lab.File{From: settings, To: "/etc/wgetrc"}
	all := []lab.File{{From: agnhost, To: "/agnhost"}} // the entry point
	for _, to := range slices.Sorted(maps.Keys(files)) {
		all = append(all, files[to])
	}
	return lab.WriteImage(archive, agnhostImage, all)
}
