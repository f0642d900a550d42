package agent

import (
	"fmt"
	"strings"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/routing/kernel"
)

// settingsToName is how many kernel settings a condition names: they often differ link by link.
const settingsToName = 3

// withSettings adds kernel settings that keep packets from pods. They are not of the fabric, so the
// condition does not become false for them.
func (c condition) withSettings(bad []kernel.Setting) condition {
	var all []string
	for i, s := range bad {
		if i == settingsToName {
			all = append(all, fmt.Sprintf("and %d more", len(bad)-i))
			break
		}
		all = append(all, fmt.Sprintf("%s is %s and should be %s", s.Key(), s.Value, s.Want))
	}
	if len(all) > 0 {
		c.Message += "; " + lb.SaysSettings + strings.Join(all, ", ")
	}
	return c
}
