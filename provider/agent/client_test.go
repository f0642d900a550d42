package agent

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestAClientOfAnAgentIsKnownAndSpeaksProtobuf(t *testing.T) {
	for _, name := range []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS", "HTTP2_PING_TIMEOUT_SECONDS"} {
		t.Setenv(name, "")
	}
	asked := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	client, err := NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("it may list Nodes")
	}
	header := <-asked
	if by, takes := header.Get("User-Agent"), header.Get("Accept"); !strings.HasPrefix(by, "plinth-agent ") || takes != "application/vnd.kubernetes.protobuf,application/json" {
		t.Errorf("it is %q and takes %q", by, takes)
	}
	if config.QPS != 20 || config.Burst != 40 || config.ContentType != "application/vnd.kubernetes.protobuf" {
		t.Errorf("it asks %v times a second, %d at once, in %s", config.QPS, config.Burst, config.ContentType)
	}
	if idle, ping := os.Getenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS"), os.Getenv("HTTP2_PING_TIMEOUT_SECONDS"); idle != "10" || ping != "5" {
		t.Errorf("a silent connection is given up after %s and %s seconds", idle, ping)
	}
}
