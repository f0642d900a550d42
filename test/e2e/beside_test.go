package e2e

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/lab"
)

func TestTwoLabsStandSideBySide(t *testing.T) {
	l := shared(t)
	other, err := lab.Start(t.Context(), lab.Homelab(), lab.Options{Name: "beside"})
	t.Cleanup(func() { lab.Down(context.Background(), "beside") })
	must(t, err)
	nodes, err := other.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(nodes.Items) != 3 {
		t.Errorf("the other lab has %d Nodes, want its own 3", len(nodes.Items))
	}
	must(t, other.Down(t.Context()))
	nodes, err = l.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(nodes.Items) != 4 {
		t.Errorf("after the other lab has gone this one has %d Nodes, want 4", len(nodes.Items))
	}
}
