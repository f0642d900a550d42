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
			s.Load([]Object{{Addr: a, UID: "object", Version: "7", Parent: tt.request.Service, ParentUID: "earlier", Holders: []lb.ServiceKey{tt.request.Service}}}, []Request{tt.request})
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

// TestAnAddressThatWasHeldBeforeStaysWhileItCannotBeClaimedAnew: somebody deleted its claim, or another that shares it
// was the first to claim it anew, and the API server does not answer for a moment.
func TestAnAddressThatWasHeldBeforeStaysWhileItCannotBeClaimedAnew(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.5")
	web, beside := service("default/web", "4"), service("default/beside", "4")
	web.Sharing, web.Shown, web.Ports = "key", []netip.Addr{a}, []Port{{"TCP", 80}}
	beside.Sharing, beside.Ports = "key", []Port{{"TCP", 81}}
	other := beside
	other.Sharing = "other"
	for name, tt := range map[string]struct {
		anew []Holder // who claimed it anew; nobody: it has no claim
		held bool
	}{
		"nobody did":                  {nil, true},
		"one did that shares it":      {[]Holder{beside.Holder}, true},
		"one did that shares nothing": {[]Holder{other.Holder}, false},
	} {
		s := NewState()
		s.SetPools(pools(t, `    - {name: public, addresses: [192.0.2.0/28]}`))
		s.Load([]Object{{Addr: a, UID: "object", Version: "7", Holders: []lb.ServiceKey{web.Service}}}, []Request{web})
		s.ObserveDeleted(a, "object", "8", noon)
		for _, h := range tt.anew {
			s.Observe(Object{Addr: a, UID: "anew", Version: "9", Holders: []lb.ServiceKey{h.Service}}, tt.anew, false)
		}
		d, _ := s.Request(web, noon)
		s.Revert(web.Service, d.VIPs)
		if held := s.IsHolder(a, web.Service); held != tt.held {
			t.Errorf("%s: held %v, want %v", name, held, tt.held)
		}
	}
}

// TestAnAddressThatWasOfferedGoesBackToItsQuarantineWhereItCannotBeClaimed: whoever had it a moment ago may have it again.
func TestAnAddressThatWasOfferedGoesBackToItsQuarantineWhereItCannotBeClaimed(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.5")
	s := NewState()
	s.SetPools(pools(t, `    - {name: public, addresses: [192.0.2.5/32]}`))
	former, next := service("default/former", "4"), service("default/next", "4")
	object := Object{Addr: a, UID: "object", Version: "7", Holders: []lb.ServiceKey{former.Service}}
	s.Load([]Object{object}, []Request{former})
	if d, _ := s.Request(next, noon); !d.Refused {
		t.Fatalf("it is to have %v", d.VIPs)
	}
	s.ToRelease(a, former.Service, "", object, noon)
	d, _ := s.Request(next, noon)
	if d.Refused || d.VIPs[0].New {
		t.Fatalf("it is not offered what is free now: %+v", d)
	}
	s.Revert(next.Service, d.VIPs)
	if all, _ := s.Quarantined(noon); s.IsHolder(a, next.Service) || len(all) != 1 || all[0].Owner != former.Service {
		t.Errorf("held: %v, in quarantine: %+v", s.IsHolder(a, next.Service), all)
	}
}
