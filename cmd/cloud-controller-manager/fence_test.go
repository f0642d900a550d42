package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/controller-manager/pkg/clientbuilder"
)

// TestAFenceIsAroundEveryClient stands for a leader that was stopped: with a lease that
// is over at once no client may write, with one that lasts all may.
func TestAFenceIsAroundEveryClient(t *testing.T) {
	for _, c := range []struct {
		name     string
		accounts bool // --use-service-account-credentials
		lasts    time.Duration
		writes   bool
	}{
		{"one account, stopped", false, time.Nanosecond, false},
		{"an account for each controller, stopped", true, time.Nanosecond, false},
		{"one account, running", false, time.Hour, true},
		{"an account for each controller, running", true, time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var written atomic.Int32
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, &written) }))
			defer api.Close()
			config := configOf(t, api.URL, c.accounts, c.lasts)
			restarted := make(chan struct{}, 1)
			fence(config, func() { restarted <- struct{}{} })
			_, err := config.ClientBuilder.ClientOrDie("node-controller").CoreV1().Nodes().Create(t.Context(), &v1.Node{}, metav1.CreateOptions{})
			if wrote := written.Load() > 0; wrote != c.writes || (err == nil) != c.writes {
				t.Errorf("wrote: %v, want %v; %v", wrote, c.writes, err)
			}
			if !c.writes {
				<-restarted
			}
		})
	}
}

// configOf is what the framework makes of its flags.
func configOf(t *testing.T, url string, accounts bool, lasts time.Duration) *cloudconfig.CompletedConfig {
	t.Helper()
	c := &cloudconfig.Config{Kubeconfig: &rest.Config{Host: url}}
	lease := &c.ComponentConfig.Generic.LeaderElection
	lease.LeaderElect, lease.LeaseDuration.Duration = true, lasts
	c.ComponentConfig.KubeCloudShared.UseServiceAccountCredentials = accounts
	own := *c.Kubeconfig // of the process itself: it fetches the tokens
	c.Client = kubernetes.NewForConfigOrDie(&own)
	c.ClientBuilder = clientbuilder.SimpleControllerClientBuilder{ClientConfig: c.Kubeconfig}
	return c.Complete()
}

// serve answers as far as the clients ask: a token of an account, and a Node.
func serve(w http.ResponseWriter, r *http.Request, written *atomic.Int32) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	if strings.HasSuffix(r.URL.Path, "/token") {
		_ = json.NewEncoder(w).Encode(authenticationv1.TokenRequest{
			TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
			Spec:     authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))},
			Status:   authenticationv1.TokenRequestStatus{Token: "token", ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))},
		})
		return
	}
	if strings.HasSuffix(r.URL.Path, "/nodes") {
		written.Add(1)
	}
	_ = json.NewEncoder(w).Encode(v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}})
}
