package source

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

func TestEveryEditIsJudgedOnceAndCounted(t *testing.T) {
	good, other, broken := proposed(text("a")), proposed(text("b")), proposed(strings.Replace(text("a"), "zone:", "zonne:", 1))
	steps := []struct {
		what       string
		edit       Edit
		generation float64
		ready      float64
		refused    float64
		enforced   int // inventories that came into force, from the beginning
	}{
		{"the first", good, 1, 1, 0, 1},
		{"the same once more", good, 1, 1, 0, 1},
		{"a mistake", broken, 1, 0, 1, 1},
		{"another mistake", proposed("{"), 1, 0, 2, 1},
		{"back to the first", good, 1, 1, 2, 1},
		{"another zone", other, 2, 1, 2, 2},
	}
	enforced := 0
	k := reconcilerOf(fake.NewClientset())
	k.Enforce = func(*inventory.Inventory) { enforced++ }
	for _, s := range steps {
		k.take(s.edit)
		if err := k.step(context.Background()); err != nil {
			t.Fatalf("%s: %v", s.what, err)
		}
		got := []float64{testutil.ToFloat64(k.Metrics.generation), testutil.ToFloat64(k.Metrics.ready), testutil.ToFloat64(k.Metrics.refused)}
		if got[0] != s.generation || got[1] != s.ready || got[2] != s.refused || enforced != s.enforced {
			t.Errorf("%s: generation, ready, refused are %v and %d came into force; want %v, %v, %v and %d",
				s.what, got, enforced, s.generation, s.ready, s.refused, s.enforced)
		}
	}
}

func TestTheMetricsOfTheInventoryAreWellNamed(t *testing.T) {
	m := NewMetrics()
	m.report(false, nil)
	problems, err := testutil.CollectAndLint(m)
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint says %v, %v", problems, err)
	}
	if n := testutil.CollectAndCount(m); n != 9 {
		t.Errorf("%d series, want 9: a new one wants a line in docs/reference/cloud-provider.md", n)
	}
}

func proposed(text string) Edit {
	return Edit{Documents: []document.Document{{Source: "dc1.yaml", Data: []byte(text)}}}
}

func reconcilerOf(client kubernetes.Interface) *Reconciler {
	return NewReconciler(Config{
		Client: client, Namespace: namespace, Recorder: record.NewFakeRecorder(100),
		Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(), Enforce: func(*inventory.Inventory) {},
	})
}

func checkStatus(t *testing.T, client kubernetes.Interface, ready, generation, problem string) {
	t.Helper()
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), StatusName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if cm.Data[KeyReady] != ready || cm.Data[KeyGeneration] != generation || !strings.Contains(cm.Data[KeyProblems], problem) {
		t.Errorf("the status is %v; want ready %s, generation %s and a problem with %q", cm.Data, ready, generation, problem)
	}
}

// nextOf is the inventory that an edit makes of that in force; nil: it is refused.
func nextOf(proposed Edit, inForce *inventory.Inventory) *inventory.Inventory {
	verdict, err := edit.Decide(proposed.proposal(""), inForce, edit.Evidence{
		Known:    inForce,
		Storable: func(*inventory.Inventory) inventory.Problems { return nil },
		Refusal:  func() (edit.Refusal, error) { return edit.Refusal{}, nil },
	})
	if err != nil {
		panic(err)
	}
	return verdict.Next
}
