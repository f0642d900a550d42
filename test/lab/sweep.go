package lab

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"syscall"

	"plinth.dev/plinth/test/lab/netns"
)

// testLabs are the names of labs that tests have. That of somebody who plays with one is none of them.
var testLabs = regexp.MustCompile(`^(e2e|traffic|labs|traces|bench)(-[a-z0-9-]+)?$`)

// testSpaces are the namespaces that tests without a lab have.
var testSpaces = regexp.MustCompile(`^(plt-|onl[0-9]+-)`)

// serviceBan keeps services from being started while packages are installed; serviceBanMark says that it is ours.
const (
	serviceBan     = "/usr/sbin/policy-rc.d"
	serviceBanMark = "# of Plinth's test/install-deps.sh"
)

// Sweep removes what runs of tests left that were killed: their labs, the namespaces of tests without one with all
// that runs there, and what keeps services from being started. No test may run meanwhile.
func Sweep(ctx context.Context, say func(format string, args ...any)) error {
	records, err := os.ReadDir(runFolder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err = nil
	for _, r := range records {
		if testLabs.MatchString(r.Name()) {
			say("removing lab %s, which an earlier run left", r.Name())
			err = errors.Join(err, Down(ctx, r.Name()))
		}
	}
	spaces, listed := netns.Names()
	err = errors.Join(err, listed)
	for _, s := range spaces {
		lab, _, _ := strings.Cut(strings.TrimPrefix(s, "plinth."), ".")
		if !testSpaces.MatchString(s) && !(strings.HasPrefix(s, "plinth.") && testLabs.MatchString(lab)) {
			continue
		}
		say("removing namespace %s, which an earlier run left", s)
		pids, _ := netns.Pids(s)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		err = errors.Join(err, netns.Delete(s))
	}
	if text, unread := os.ReadFile(serviceBan); unread == nil && strings.Contains(string(text), serviceBanMark) {
		say("removing %s, which an earlier run left", serviceBan)
		err = errors.Join(err, os.Remove(serviceBan))
	}
	return err
}
