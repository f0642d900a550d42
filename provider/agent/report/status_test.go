package report

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/sorted"
)

func TestTheStatusTellsVIPsThatKubeProxyIsNotAskedAbout(t *testing.T) {
	of := func(name string, p lb.Proxy) advertise.Offer {
		o := advertise.Offer{Service: lb.ServiceKey{Namespace: "prod", Name: name}, VIP: netip.MustParseAddr("203.0.113.5"), Endpoints: advertise.Endpoints{Any: 1}, Frontend: advertise.Frontend{Ports: "80/TCP"}}
		o.Frontend.Proxy = p
		return o
	}
	none := of("none", "other")
	none.Endpoints.Any = 0
	limited := of("limited", "other")
	s := &Status{basis: Basis{
		Offers: sorted.Of(of("headless", lb.NoProxy), of("kubes", lb.KubeProxy), limited, none, of("others", "other"), of("unnamed", lb.UnnamedProxy)),
		Plan: plan.Plan{Refused: sorted.Of(advertise.Refusal{Service: limited.Service, VIP: limited.VIP, Router: "tor", Reason: lb.PoolLimitedToRouters},
			advertise.Refusal{Service: none.Service, VIP: none.VIP, Reason: lb.NoEndpoint})},
	}}
	s.fill(nil, nil)
	var got []string
	for _, r := range s.Exempt {
		got = append(got, r.Service+" "+r.VIP+" "+r.Reason)
	}
	want := []string{
		"prod/headless 203.0.113.5 LabelledHeadless", "prod/limited 203.0.113.5 ServedByOtherProxy", "prod/others 203.0.113.5 ServedByOtherProxy",
		"prod/unnamed 203.0.113.5 ServedByOtherProxy",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
