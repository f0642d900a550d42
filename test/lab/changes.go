package lab

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"time"
)

// Change is a change of a route in a host's kernel.
type Change struct {
	At   time.Time
	Host string
	Text string // as ip monitor prints it
}

// Changes returns what a host's kernel changes about the routes to an address alone, from now
// on, until it is asked.
func (l *Lab) Changes(ctx context.Context, host string, to netip.Addr) (asked func() []Change, err error) {
	ctx, stop := context.WithCancel(ctx)
	c := exec.CommandContext(ctx, "ip", "-o", "-n", l.Namespace(host), "monitor", "route")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("following the routes of %s: %w", host, err)
	}
	var seen []Change
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if line := lines.Text(); strings.Contains(line+" ", to.String()+" ") {
				seen = append(seen, Change{time.Now(), host, line})
			}
		}
	}()
	return func() []Change {
		stop()
		<-done
		_ = c.Wait() // it was killed
		return seen
	}, nil
}
