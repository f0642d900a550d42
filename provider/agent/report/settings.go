package report

import (
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/routing/kernel"
)

// Settings are kernel settings as the Node's condition reports them. They are not of the fabric, so the
// condition does not become false for them.
func Settings(bad []kernel.Setting) (all []lb.Setting) {
	for _, s := range bad {
		all = append(all, lb.Setting{Name: s.Key(), Value: s.Value, Want: s.Want})
	}
	return all
}
