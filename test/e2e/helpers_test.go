package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inForce applies an inventory and gives the routers their side of it; the lab's
// usual one is back in force when the story ends.
func inForce(t *testing.T, l *lab.Lab, documents ...string) {
	t.Helper()
	usual := lab.Inventory(l.Topology)
	t.Cleanup(func() {
		ctx := context.Background()
		if err := errors.Join(l.ApplyInventory(ctx, usual), l.ConfigureRouters(ctx, usual)); err != nil {
			t.Error(err)
		}
	})
	must(t, l.ConfigureRouters(t.Context(), documents...))
	must(t, l.ApplyInventory(t.Context(), documents...))
}

// probing sends the client's requests to a VIP for the length of a story. Its
// report begins once all is well.
func probing(t *testing.T, l *lab.Lab, vip netip.Addr, rate int) *lab.Prober {
	t.Helper()
	return probingURL(t, l, lab.URL(vip, lab.WebPort), rate)
}

func probingURL(t *testing.T, l *lab.Lab, url string, rate int) *lab.Prober {
	t.Helper()
	p := l.Probe(t.Context(), url, rate)
	t.Cleanup(func() { p.Stop() })
	must(t, p.Steady(t.Context(), time.Second))
	p.Forget()
	return p
}

// noneLost ends the probes: none of their connections was lost.
func noneLost(t *testing.T, probes map[netip.Addr]*lab.Prober) {
	t.Helper()
	for vip, p := range probes {
		r := p.Stop()
		t.Logf("%s: %s", vip, r)
		if r.Sent == 0 || r.Lost+r.Slow > 0 {
			t.Errorf("%s: %d of %d new connections were lost, and %d came late: %v", vip, r.Lost, r.Sent, r.Slow, r.Losses)
		}
	}
}

func errNotFrom(pool netip.Prefix, vips []netip.Addr) error {
	return fmt.Errorf("VIPs %v, want one of %s", vips, pool)
}
