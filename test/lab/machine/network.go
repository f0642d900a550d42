package machine

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// network makes what an operating system brings up at its start, and takes away
// what the last run left: the machine's network namespace outlives its power.
func (c Config) network() error {
	for _, link := range []string{"cni0", "plinth-vxlan"} {
		if _, err := os.Stat("/proc/sys/net/ipv4/conf/" + link); err == nil {
			if err := run("ip", "link", "delete", link); err != nil {
				return err
			}
		}
	}
	if err := run("nft", "flush ruleset"); err != nil {
		return err
	}
	for family, inside := range c.Masquerade {
		if err := run("nft", masquerade(family, inside)); err != nil {
			return err
		}
	}
	return nil
}

// masquerade has pods reach the outside under the machine's address, as every CNI
// arranges it. Pods are whoever has an address of the first network.
func masquerade(family string, inside []string) string {
	return fmt.Sprintf(`table %s lab_masquerade {
	chain postrouting {
		type nat hook postrouting priority 101
		%s saddr %s %s daddr != { %s } masquerade
	}
}`, family, family, inside[0], family, strings.Join(inside, ", "))
}

func run(command ...string) error {
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
