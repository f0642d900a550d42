package stock

import (
	"context"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
)

// Those that the cache keeps are a part: the API server would take the others away.
func TestAnUpdateFromTheCacheSaysNothingOfManagedFields(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "plinth"}}}}
	api := fake.NewClientset(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}})
	unknown := func(context.Context, typedv1.NodeInterface, *v1.Node) (*v1.Node, bool, error) { return nil, false, nil }
	if _, err := nodeInitClient(api, nil, unknown).CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, a := range api.Actions() {
		if sent := a.(clienttesting.UpdateAction).GetObject().(*v1.Node); len(sent.ManagedFields) > 0 || sent.Name != "w1" {
			t.Errorf("sent is %+v", sent)
		}
	}
	if len(api.Actions()) != 1 || len(node.ManagedFields) != 1 {
		t.Errorf("there are %d requests, and the cache's Node has %v", len(api.Actions()), node.ManagedFields)
	}
}

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
