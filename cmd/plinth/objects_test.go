package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/importer"
)

// TestObjectsAreReadInAVersionThatTheClusterServes: the cluster has an older release of Cilium, which serves an older version alone.
func TestObjectsAreReadInAVersionThatTheClusterServes(t *testing.T) {
	answers := map[string]string{
		"/apis":                    `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"cilium.io","versions":[{"groupVersion":"cilium.io/v2","version":"v2"},{"groupVersion":"cilium.io/v2alpha1","version":"v2alpha1"}]}]}`,
		"/api":                     `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis/cilium.io/v2":       `{"kind":"APIResourceList","groupVersion":"cilium.io/v2","resources":[{"name":"ciliumnodes","kind":"CiliumNode"}]}`,
		"/apis/cilium.io/v2alpha1": `{"kind":"APIResourceList","groupVersion":"cilium.io/v2alpha1","resources":[{"name":"ciliumloadbalancerippools","kind":"CiliumLoadBalancerIPPool"},{"name":"ciliumloadbalancerippools/status","kind":"CiliumLoadBalancerIPPool"}]}`,
		"/api/v1":                  `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`,
		"/apis/cilium.io/v2alpha1/ciliumloadbalancerippools": `{"kind":"List","apiVersion":"cilium.io/v2alpha1","items":[{"kind":"CiliumLoadBalancerIPPool","apiVersion":"cilium.io/v2alpha1","metadata":{"name":"old"},"spec":{"cidrs":[{"cidr":"203.0.113.0/28"}]}}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u}]}", server.URL)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	docs, err := clusterFlags{kubeconfig: file}.objects(t.Context(), importer.KindsOf("cilium"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(docs[0].Data); !strings.Contains(text, "name: old") {
		t.Errorf("the pool is not among the objects:\n%s", text)
	}
}
