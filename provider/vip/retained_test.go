package vip

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
)

func TestServiceIsToldOnceOfAVIPThatItWouldNotGetNow(t *testing.T) {
	const base = `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: test}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 10.10.1.1, asn: 64513}]
  racks: [{name: shelf, machines: [{name: m1, addresses: [10.10.1.11]}]}]
  pools: [`
	for _, tt := range []struct {
		name, pool string
		reason     lb.Reason
		announced  bool
	}{
		{"the pool shrank", "addresses: [192.0.2.2/31]", lb.VIPOutsidePools, false},
		{"the pool is disabled", "addresses: [192.0.2.0/30], exclude: [192.0.2.0], state: disabled", lb.PoolIsDisabled, false},
		{"excluded", "addresses: [192.0.2.0/30], exclude: [192.0.2.0]", lb.AddressExcluded, true},
		{"the first is skipped", "addresses: [192.0.2.0/30], skipFirstLast: true", lb.AddressExcluded, true},
		{"another namespace's", "addresses: [192.0.2.0/30], namespaces: [prod]", lb.NamespaceNotAllowed, true},
		{"of other labels", "addresses: [192.0.2.0/30], serviceSelector: {matchLabels: {tier: gold}}", lb.LabelsNotSelected, true},
		{"reserved for another", "addresses: [192.0.2.0/30], reserved: {192.0.2.0: prod/web}", lb.AddressReserved, true},
		{"reserved for itself", "addresses: [192.0.2.0/30], reserved: {192.0.2.0: d/a}, namespaces: [prod]", "", true},
		{"being drained, and not automatic", "addresses: [192.0.2.0/30], autoAssign: false, state: draining", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHeld(t)
			events := record.NewFakeRecorder(9)
			h.cluster.Recorder = events
			h.settled(0)
			inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(base + "{name: public, " + tt.pool + "}]\n")})
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				h.options.InForce.Set(inv)
				if err := h.setPools(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			close(events.Events)
			var said []string
			for e := range events.Events {
				said = append(said, e)
			}
			if tt.reason == "" {
				if len(said) > 0 {
					t.Errorf("it is told %q", said)
				}
				return
			}
			if len(said) != 1 || !strings.HasPrefix(said[0], "Warning "+string(tt.reason)+" 192.0.2.0 is kept") ||
				strings.Contains(said[0], "is not announced") == tt.announced {
				t.Errorf("it is told %q, want %s once, announced: %v", said, tt.reason, tt.announced)
			}
		})
	}
}
