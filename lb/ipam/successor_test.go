package ipam

import (
	"net/netip"
	"strings"
	"testing"

	"plinth.dev/plinth/lb"
)

// TestWhatAnEarlierServiceOfItsNameLeftStaysWhereItCouldBeGiven: a leader claimed an address and
// ended before a status showed it, and the Service was deleted and made again meanwhile.
func TestWhatAnEarlierServiceOfItsNameLeftStaysWhereItCouldBeGiven(t *testing.T) {
	const yaml = `
    - {name: public, addresses: [192.0.2.0/28]}
    - {name: asked, addresses: [203.0.113.0/28], autoAssign: false}
`
	for _, tt := range []struct {
		name, left, pools string
		request           Request
		want, release     string
	}{
		{"of a pool that gives it", "192.0.2.5", yaml, service("default/web", "4"), "192.0.2.5", ""},
		{"of one that gives what is asked for alone", "203.0.113.5", yaml, service("default/web", "4"), "192.0.2.0", "203.0.113.5"},
		{"of that one, asked for", "203.0.113.5", yaml, with(service("default/web", "4"), ips("203.0.113.5")), "203.0.113.5", ""},
		{"of that one, by its name", "203.0.113.5", yaml, with(service("default/web", "4"), Ask{Pool: "asked"}), "203.0.113.5", ""},
		{"of a pool that is no more", "203.0.113.5", `    - {name: public, addresses: [192.0.2.0/28]}`, service("default/web", "4"), "192.0.2.0", "203.0.113.5"},
		{"its own, whatever becomes of the pool", "203.0.113.5", yaml, service("default/web", "4"), "203.0.113.5", ""},
		{"of one that drains", "192.0.2.5", `    - {name: public, addresses: [192.0.2.0/28], state: draining}`, service("default/web", "4"), "192.0.2.5", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := netip.MustParseAddr(tt.left)
			s := NewState()
			s.SetPools(pools(t, tt.pools))
			s.Load([]Object{{Addr: a, UID: "object", Version: "7", Parent: tt.request.Service, ParentUID: "earlier", Holders: []lb.ServiceKey{tt.request.Service}}}, []Holder{tt.request.Holder})
			tt.request.UID = "later"
			if strings.HasPrefix(tt.name, "its own") {
				tt.request.UID = "earlier"
			}
			d, _ := s.Request(tt.request, noon)
			if got := brief(d); got != tt.want || list(d.Release) != tt.release {
				t.Errorf("%s, releases %s; want %s, releases %s", got, list(d.Release), tt.want, tt.release)
			}
		})
	}
}
