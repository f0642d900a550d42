package source

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// newerFormat is one that this program does not read.
var newerFormat = strconv.Itoa(document.ReadsFormat + 1)

// number has an accepted ConfigMap bear that number of the format.
func number(t *testing.T, client *fake.Clientset, name, format string) {
	t.Helper()
	maps := client.CoreV1().ConfigMaps(namespace)
	cm, err := maps.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cm.Annotations[inventory.AnnotationFormat] = format
	if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// acceptedNow is what is stored, by name.
func acceptedNow(t *testing.T, client *fake.Clientset) map[string]string {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: LabelAccepted})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, cm := range list.Items {
		out[cm.Name] = cm.Annotations[inventory.AnnotationFormat] + cm.Annotations[AnnotationGeneration] + cm.Data[keyInventory] + cm.Data[keyRacks]
	}
	return out
}

// TestWhatANewerVersionStoredIsKept has a newer version store any of the ConfigMaps, beneath a
// controller manager that leads and before one that comes to lead. Neither writes over it,
// each says why, and what is in force stays. Then the object is set back.
func TestWhatANewerVersionStoredIsKept(t *testing.T) {
	for _, name := range []string{AcceptedName, AcceptedName + ".r0.1", AcceptedName + "-r1"} {
		for _, leads := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", leading", false: ", coming to lead"}[leads], func(t *testing.T) {
				ctx, client := t.Context(), fake.NewClientset()
				k, first, other := reconcilerOf(client), proposed(layout(map[string]string{"r0": "a", "r1": "b"})), proposed(layout(map[string]string{"r0": "a", "r2": "b"}))
				k.take(first)
				if err := k.step(ctx); err != nil {
					t.Fatal(err)
				}
				inForce := k.stored.have.inventory
				number(t, client, name, newerFormat)
				before := acceptedNow(t, client)
				if !leads {
					k = reconcilerOf(client)
				}
				k.Enforce = func(*inventory.Inventory) { t.Error("something came into force") }
				events := k.Recorder.(*record.FakeRecorder).Events
				for len(events) > 0 {
					<-events
				}
				k.stored.loaded = false // as the watch tells it
				for range 3 {
					k.take(other)
					if err := k.step(ctx); err != nil {
						t.Fatal(err)
					}
				}

				if after := acceptedNow(t, client); !maps.Equal(before, after) {
					t.Errorf("stored was\n%v\nand is\n%v", before, after)
				}
				if leads && k.stored.have.inventory != inForce || !leads && k.stored.have.inventory != nil {
					t.Errorf("in force is %v", k.stored.have.inventory)
				}
				checkStatus(t, client, "false", map[bool]string{true: "1", false: "0"}[leads], "configmap "+name+` is of format "`+newerFormat+`"`)
				if n := testutil.ToFloat64(k.Metrics.newer); n != 1 {
					t.Errorf("the metric says %v", n)
				}
				if len(events) != 1 || !strings.Contains(<-events, ReasonNewerFormat) {
					t.Errorf("%d Events more than one", len(events))
				}
				if _, err := Accepted(ctx, client, namespace); !errors.As(err, new(*inventory.NewerFormatError)) {
					t.Errorf("somebody else reads %v", err)
				}
				if err := k.Current(ctx); leads && name == AcceptedName && !errors.As(err, new(*inventory.NewerFormatError)) {
					t.Errorf("a Node may be deleted by what is in force here: %v", err)
				}

				number(t, client, name, "1")
				k.Enforce, k.stored.loaded = func(*inventory.Inventory) {}, false
				if err := k.step(ctx); err != nil {
					t.Fatal(err)
				}
				checkStatus(t, client, "true", "2", "")
				if _, there := k.stored.have.inventory.Rack("r2"); !there || testutil.ToFloat64(k.Metrics.newer) != 0 {
					t.Errorf("the edit was not taken up: %v", k.stored.have.inventory.Racks)
				}
			})
		}
	}
}

// TestAStatusIsAsItWasOnceWhatANewerVersionStoredIsSetBack: no edit comes meanwhile.
func TestAStatusIsAsItWasOnceWhatANewerVersionStoredIsSetBack(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	k, e := reconcilerOf(client), proposed(layout(map[string]string{"r0": "a"}))
	k.take(e)
	for _, s := range []struct{ format, ready string }{{"", "true"}, {"7", "false"}, {"1", "true"}} {
		if s.format != "" {
			number(t, client, AcceptedName, s.format)
		}
		k.stored.loaded = false
		if err := k.step(ctx); err != nil {
			t.Fatal(err)
		}
		checkStatus(t, client, s.ready, "1", "")
	}
}

// TestAnAgentIsToldOfWhatItDoesNotRead and keeps what it was given, until it reads it.
func TestAnAgentIsToldOfWhatItDoesNotRead(t *testing.T) {
	for _, name := range []string{AcceptedName, sliceName("r1", 1)} {
		client := fake.NewClientset()
		s := acceptedStore{client: client, namespace: namespace}
		if _, err := s.save(t.Context(), dc(t, "a", "b"), accepted{}); err != nil {
			t.Fatal(err)
		}
		type given struct {
			inv *inventory.Inventory
			err error
		}
		ctx, cancel := context.WithCancel(t.Context())
		got, done := make(chan given, 9), make(chan error)
		go func() {
			done <- Follow(ctx, client, namespace, "r1", "w1", func(f Followed, err error) { got <- given{f.Inventory, err} })
		}()
		for _, format := range []string{"", newerFormat, "1"} {
			if format != "" {
				number(t, client, name, format)
			}
			if name != AcceptedName { // slices are read when what lists them is new
				number(t, client, AcceptedName, "1")
			}
			select {
			case g := <-got:
				if newer := errors.As(g.err, new(*inventory.NewerFormatError)); newer != (format == newerFormat) || newer == (g.inv != nil) {
					t.Errorf("%s of format %q: it is given %v, %v", name, format, g.inv, g.err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s of format %q: nothing was said", name, format)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
