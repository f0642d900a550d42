package agent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestAClientOfAnAgentIsKnownAndSpeaksProtobuf(t *testing.T) {
	asked := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	client, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("it may list Nodes")
	}
	header := <-asked
	if by, takes := header.Get("User-Agent"), header.Get("Accept"); !strings.HasPrefix(by, "plinth-agent ") || !strings.HasPrefix(takes, protobuf) {
		t.Errorf("it is %q and takes %q", by, takes)
	}
}
