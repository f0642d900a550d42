package stock

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// TestThatANodeIsInitialisedIsNoEvent records as the stock node controller does.
func TestThatANodeIsInitialisedIsNoEvent(t *testing.T) {
	api := fake.NewClientset()
	events := record.NewBroadcaster()
	defer events.Shutdown()
	events.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: nodeInitClient(api, nil, nil).CoreV1().Events("")})
	recorder := events.NewRecorder(scheme.Scheme, v1.EventSource{Component: "cloud-node-controller"})
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", UID: "1"}}
	for range 2 { // the second is counted, not created
		recorder.Event(node, v1.EventTypeNormal, reasonSynced, "Node synced successfully")
	}
	recorder.Event(node, v1.EventTypeWarning, "Last", "there is nothing after it")
	var sent []string
	for limit := time.Now().Add(10 * time.Second); !slices.Contains(sent, "Last"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("sent are only %v", sent)
		}
		list, err := api.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		sent = nil
		for _, e := range list.Items {
			sent = append(sent, e.Reason)
		}
	}
	if len(sent) != 1 {
		t.Errorf("sent are %v", sent)
	}
}
