package kubeproxy

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPortsAreReadAndWhatIsNotUnderstoodIsLeftOut(t *testing.T) {
	want := []port{{unix.IPPROTO_TCP, 443}, {unix.IPPROTO_UDP, 53}, {unix.IPPROTO_SCTP, 5060}}
	if got := portsIn("443/TCP,53/UDP,5060/SCTP,70000/TCP,80/QUIC,80,,x/TCP"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := portsIn(""); len(got) > 0 {
		t.Errorf("nothing is read as %v", got)
	}
}

func TestHealthCheckNodePortsAreAskedInTheVIPsFamilyFirst(t *testing.T) {
	addr := netip.MustParseAddr
	node := []netip.Addr{addr("10.1.0.11"), addr("fd01::11")}
	for vip, want := range map[string][]netip.Addr{
		"203.0.113.5":   {addr("10.1.0.11"), addr("127.0.0.1"), addr("fd01::11"), addr("::1")},
		"2001:db8::113": {addr("fd01::11"), addr("::1"), addr("10.1.0.11"), addr("127.0.0.1")},
	} {
		if got := healthAddresses(addr(vip), node); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", vip, got, want)
		}
	}
}

// TestAHealthCheckNodePortCountsReadyEndpoints has answers as kube-proxy 1.37 gives them,
// in pkg/proxy/healthcheck/service_health.go, and one of another program.
func TestAHealthCheckNodePortCountsReadyEndpoints(t *testing.T) {
	const says = `{
	"service": {
		"namespace": "prod",
		"name": "web"
	},
	"localEndpoints": %d,
	"serviceProxyHealthy": true
}`
	tests := []struct {
		body    string
		status  int
		want    int
		answers bool
	}{
		{fmt.Sprintf(says, 2), http.StatusOK, 2, true},
		{fmt.Sprintf(says, 0), http.StatusServiceUnavailable, 0, true},
		{`{"status": "ok"}`, http.StatusOK, 0, false},
		{"", http.StatusOK, 0, false}, // a Service that it serves no more
	}
	for _, tt := range tests {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.body))
		}))
		at := netip.MustParseAddrPort(srv.Listener.Addr().String())
		got, err := readyHere(context.Background(), []netip.Addr{netip.MustParseAddr("::1"), at.Addr()}, at.Port())
		if got != tt.want || (err == nil) != tt.answers {
			t.Errorf("%q: %d, %v", tt.body, got, err)
		}
		srv.Close()
	}
}
