package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

func TestAnInventoryWithAMistakeChangesNothingAndIsToldWhereItIs(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "mistake", 2)
	vips := story.Expose(t, l, lab.LoadBalancer("mistake", "mistake"))
	story.Announced(t, l, vips)
	before := story.RoutersKnow(t, l)

	usual := lab.Inventory(l.Topology)
	t.Cleanup(func() { must(t, l.ApplyInventory(context.Background(), usual)) })
	broken := strings.Replace(usual, "type: lab-small", "typo: lab-small", 1)
	head, _, _ := strings.Cut(broken, "typo: lab-small")
	line := strings.Count(head, "\n") + 1
	place := fmt.Sprintf("part0.yaml:%d:%d: error", line, len(head)-strings.LastIndex(head, "\n"))
	must(t, l.ApplyInventory(t.Context(), broken))
	status := func(want string) error {
		return lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
			cm, err := l.Kube.CoreV1().ConfigMaps(lab.PlinthNamespace).Get(ctx, "plinth-inventory-status", metav1.GetOptions{})
			if err == nil && cm.Data["ready"] != want {
				err = fmt.Errorf("status %v, want ready %s", cm.Data, want)
			}
			if err == nil && want == "false" && !strings.Contains(cm.Data["problems"], place) {
				err = fmt.Errorf("no problem is at %s: %s", place, cm.Data["problems"])
			}
			return err
		})
	}
	must(t, status("false"))
	if text, well, err := l.Status(t.Context()); err != nil || well || !strings.Contains(text, place) {
		t.Errorf("plinth status says, with error %v:\n%s", err, text)
	}
	must(t, l.RestartCCM(t.Context())) // also one that starts with the mistake has the last good one
	passage(t, l, "mistake")           // all have heard of what it does
	if after := story.RoutersKnow(t, l); after != before {
		t.Errorf("the routers knew\n%s\nand now know\n%s", before, after)
	}
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}
	must(t, l.ApplyInventory(t.Context(), usual))
	must(t, status("true"))
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error { return story.AllWell(ctx, l) }))
}
