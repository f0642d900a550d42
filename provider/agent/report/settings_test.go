package report

import (
	"fmt"
	"testing"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing/kernel"
)

func TestTheConditionNamesKernelSettingsAndStaysTrue(t *testing.T) {
	says := func(tally Tally, bad []kernel.Setting) plan.Condition {
		s := tally.Statement()
		s.Report.NameSettings(Settings(bad))
		return s.Condition()
	}
	bad := []kernel.Setting{{Name: "net/ipv4/ip_forward", Value: "0", Want: "1", Why: "packets are not passed on"}}
	for i := range 4 {
		bad = append(bad, kernel.Setting{Name: fmt.Sprintf("net/ipv6/conf/eth%d/accept_ra", i), Value: "1", Want: "2"})
	}
	for n, want := range map[int]string{
		0: "routes 0/0, sessions 0/0",
		1: "routes 0/0, sessions 0/0; kernel settings: net.ipv4.ip_forward is 0 and should be 1",
		5: "routes 0/0, sessions 0/0; kernel settings: net.ipv4.ip_forward is 0 and should be 1, net.ipv6.conf.eth0.accept_ra is 1 and should be 2, net.ipv6.conf.eth1.accept_ra is 1 and should be 2, and 2 more",
	} {
		c := says(Tally{}, bad[:n])
		if c.Message != want || c.Ready != "True" || c.Reason != AsPlanned {
			t.Errorf("%d: %v, want %s", n, c, want)
		}
	}
	vlan := []kernel.Setting{{Name: "net/ipv4/conf/eth0.100/rp_filter", Value: "1", Want: "2"}}
	if c, want := says(Tally{}, vlan), "routes 0/0, sessions 0/0; kernel settings: net/ipv4/conf/eth0.100/rp_filter is 1 and should be 2"; c.Message != want {
		t.Errorf("of a link with a dot: %s, want %s", c.Message, want)
	}
	if c := says(Tally{SessionsWanted: 2}, bad); !lb.ParseReport(c.Message).NoSessionIsUp() {
		t.Errorf("it is no longer told that no session is up: %s", c.Message)
	}
}
