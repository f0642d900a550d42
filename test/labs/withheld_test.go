package labs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// TestAFamilyThatARouterDoesNotTakeIsFoundFarFromItsMachines gives routers one address each, so that one session carries both
// families, and then has them take no IPv6: the sessions stay up. status and why learn of it by the API server alone.
func TestAFamilyThatARouterDoesNotTakeIsFoundFarFromItsMachines(t *testing.T) {
	const reason = "FamilyNotNegotiated IPv6"
	l := story.Shared(t)
	story.Web(t, l, "withheld", 4)
	vips := story.Expose(t, l, lab.LoadBalancer("withheld", "withheld"))
	story.Announced(t, l, vips)
	usual := lab.Inventory(l.Topology)
	single := story.Edited(t, usual, "  podNetwork:\n", "  safety: {sessionTrial: 0s}\n  podNetwork:\n")
	for _, rack := range l.Topology.Racks {
		at := l.Topology.RouterAddress(rack.Routers[0], rack.Name)
		single = story.Edited(t, single, at.V4.String()+`, "`+at.V6.String()+`"`, at.V4.String())
	}
	t.Cleanup(func() {
		must(t, l.ConfigureRouters(context.Background(), usual))
		must(t, l.ApplyInventory(context.Background(), usual))
		must(t, l.WaitFabric(context.Background()))
		for _, vip := range vips {
			must(t, l.WaitServed(context.Background(), vip))
		}
	})
	must(t, l.ConfigureRouters(t.Context(), single))
	must(t, l.ApplyInventoryWithLosses(t.Context(), single)) // pods have no gateway of IPv6 then
	must(t, lab.Within(t.Context(), time.Minute, func(ctx context.Context) error { return oneSession(ctx, l) }))
	must(t, l.WaitFabric(t.Context()))
	story.Announced(t, l, vips)

	file := filepath.Join(t.TempDir(), "inventory.yaml")
	must(t, os.WriteFile(file, []byte(single), 0o644))
	for _, r := range l.Topology.Routers {
		side, err := l.RouterConfig(t.Context(), r, file)
		must(t, err)
		text := withoutIPv6(side)
		if text == side {
			t.Fatalf("nothing of IPv6 is there to be taken away:\n%s", side)
		}
		must(t, l.ConfigureRouter(t.Context(), r.Name, text))
	}
	begun := time.Now()
	must(t, lab.Within(t.Context(), causeTold, func(ctx context.Context) error {
		var found []error
		for _, m := range l.Topology.Machines() {
			found = append(found, story.InStatus(ctx, l, m.Name, reason), story.BrokenAt(ctx, l, "node/"+m.Name, "fabric", reason))
		}
		return errors.Join(found...)
	}))
	t.Logf("it is found after %v", time.Since(begun).Round(time.Second))
	for _, vip := range vips {
		if vip.Is4() {
			_, err := l.Get(t.Context(), lab.URL(vip, lab.WebPort))
			must(t, err)
		}
	}
}

// oneSession says which machine has not one session.
func oneSession(ctx context.Context, l *lab.Lab) error {
	for _, m := range l.Topology.Machines() {
		if sessions, err := l.Sessions(ctx, m.Name); err != nil || len(sessions) != 1 {
			return fmt.Errorf("%s has the sessions %+v (%v)", m.Name, sessions, err)
		}
	}
	return nil
}

// withoutIPv6 is a router's side that takes no IPv6 from any machine: FRR activates the family for no neighbour, and BIRD has no
// channel for it.
func withoutIPv6(side string) string {
	var text strings.Builder
	section := ""
	for line := range strings.Lines(side) {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "address-family "), line == "  ipv6 {\n":
			section = trimmed
		case trimmed == "exit-address-family":
			section = ""
		}
		activates := section == "address-family ipv6 unicast" && strings.HasSuffix(line, " activate\n")
		if !activates && section != "ipv6 {" {
			text.WriteString(line)
		}
		if section == "ipv6 {" && line == "  };\n" {
			section = ""
		}
	}
	return text.String()
}
