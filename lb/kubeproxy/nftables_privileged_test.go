//go:build privileged

package kubeproxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"plinth.dev/plinth/lb/advertise"
)

func TestTheElementInKubeProxysMapIsTheEvidence(t *testing.T) {
	for _, f := range families {
		t.Run(f.table, func(t *testing.T) {
			var p Prober
			q := question(f.vip, "80/TCP,53/UDP")
			expect(t, "without kube-proxy", ask(t, &p, Round{}, q), advertise.Unknown)
			expect(t, "before the first sync of kube-proxy", ask(t, &p, Round{Proxy: true}, q), advertise.Absent)
			tables(t, f.table, f.kind)
			expect(t, "without the VIP", ask(t, &p, Round{}, q), advertise.Absent)
			serve(t, f.table, f.vip.Next(), "tcp . 80")
			serve(t, f.table, f.vip, "tcp . 81")
			serve(t, f.table, f.vip, "udp . 80")
			expect(t, "with its neighbours", ask(t, &p, Round{}, q), advertise.Absent)
			serve(t, f.table, f.vip, "udp . 53")
			expect(t, "with one of its ports", ask(t, &p, Round{}, q), advertise.Present)
			serve(t, f.table, f.vip, "tcp . 80")
			expect(t, "with both", ask(t, &p, Round{}, q), advertise.Present)
			nft(t, fmt.Sprintf("delete element %s kube-proxy service-ips { %s . tcp . 80 }\ndelete element %[1]s kube-proxy service-ips { %[2]s . udp . 53 }\n", f.table, f.vip))
			expect(t, "without them again", ask(t, &p, Round{}, q), advertise.Absent)
			expect(t, "of a Service whose ports are not known", ask(t, &p, Round{}, question(f.vip, "")), advertise.Unknown)
		})
	}
}

// A look takes several questions, and kube-proxy's first sync, or a firewall that is loaded anew, may come between two.
func TestRulesThatComeOrGoWhileTheyAreLookedForAreNotOfAnotherVersion(t *testing.T) {
	var p Prober
	var asked sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	looks, unknown := 0, 0
	asked.Go(func() {
		for ; ctx.Err() == nil; looks++ {
			if p.Ask(context.Background(), Round{Proxy: true}, []advertise.Question{question(vip4, "80/TCP")})[0].Evidence == advertise.Unknown {
				unknown++
			}
		}
	})
	for range 100 {
		nft(t, "add table ip kube-proxy\nadd map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict ; }\n")
		nft(t, "delete table ip kube-proxy\n")
	}
	stop()
	asked.Wait()
	if looks < 100 || unknown > 0 {
		t.Errorf("%d of %d looks found nobody to ask", unknown, looks)
	}
}

func TestTheOtherFamilysRulesAreNoEvidence(t *testing.T) {
	var p Prober
	tables(t, "ip", "ipv4_addr")
	tables(t, "ip6", "ipv6_addr")
	serve(t, "ip", vip4, "tcp . 80")
	expect(t, "IPv4", ask(t, &p, Round{}, question(vip4, "80/TCP")), advertise.Present)
	expect(t, "IPv6", ask(t, &p, Round{}, question(vip6, "80/TCP")), advertise.Absent)
}

// TestAnEndpointsArrivalIsWhatTheHealthCheckNodePortSays, and where none answers, that the
// VIP is not among those without endpoints.
func TestAnEndpointsArrivalIsWhatTheHealthCheckNodePortSays(t *testing.T) {
	sh(t, "ip link set lo up")
	var p Prober
	tables(t, "ip", "ipv4_addr")
	serve(t, "ip", vip4, "tcp . 80")
	q := question(vip4, "80/TCP")
	q.Ready, q.Frontend.HealthCheckPort = true, 31999
	expect(t, "no port open", ask(t, &p, Round{}, q), advertise.Present)
	nft(t, "add element ip kube-proxy no-endpoint-services { 203.0.113.5 . tcp . 80 : drop }\n")
	expect(t, "no port open, and no endpoint", ask(t, &p, Round{}, q), advertise.Absent)

	for _, at := range []string{"127.0.0.1", "127.0.0.2"} { // all addresses, and the Node's alone
		l, err := net.Listen("tcp", at+":31999")
		if err != nil {
			t.Fatal(err)
		}
		var ready atomic.Int32
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"localEndpoints": %d}`, ready.Load())
		})}
		go func() { _ = srv.Serve(l) }()
		r := Round{Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.2")}}
		expect(t, at+" says none is ready", ask(t, &p, r, q), advertise.Absent)
		ready.Store(1)
		// The one that counts is of the other family, and this one is a sync behind.
		expect(t, at+" says one is ready, and the rules have none", ask(t, &p, r, q), advertise.Absent)
		nft(t, "delete element ip kube-proxy no-endpoint-services { 203.0.113.5 . tcp . 80 }\n")
		expect(t, at+" says one is ready", ask(t, &p, r, q), advertise.Present)
		nft(t, "add element ip kube-proxy no-endpoint-services { 203.0.113.5 . tcp . 80 : drop }\n")
		nft(t, "delete element ip kube-proxy service-ips { 203.0.113.5 . tcp . 80 }\n")
		expect(t, "the VIP is not in the rules", ask(t, &p, r, q), advertise.Absent)
		serve(t, "ip", vip4, "tcp . 80")
		_ = srv.Close()
	}
}
