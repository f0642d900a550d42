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

// TestAFenceIsAroundEveryClient closes it as a leader does that is to end.
func TestAFenceIsAroundEveryClient(t *testing.T) {
	for name, accounts := range map[string]bool{"one account": false, "an account for each controller": true} { // --use-service-account-credentials
		t.Run(name, func(t *testing.T) {
			var written atomic.Int32
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, &written) }))
			defer api.Close()
			config := configOf(t, api.URL, accounts)
			fence := enclose(config, func() { t.Error("it was never stopped") })
			write := func() error {
				_, err := config.ClientBuilder.ClientOrDie("node-controller").CoreV1().Nodes().Create(t.Context(), &v1.Node{}, metav1.CreateOptions{})
				return err
			}
			if err := write(); err != nil || written.Load() != 1 {
				t.Errorf("while it leads it wrote %d times; %v", written.Load(), err)
			}
			if err := fence.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := write(); err == nil || written.Load() != 1 {
				t.Errorf("after that it wrote %d times; %v", written.Load()-1, err)
			}
		})
	}
}

// TestAStoppedLeaderIsSureToLeadForWhatTheFlagsLeave is arithmetic of client-go's election.
func TestAStoppedLeaderIsSureToLeadForWhatTheFlagsLeave(t *testing.T) {
	for _, c := range []struct{ duration, deadline, retry, want time.Duration }{
		{15 * time.Second, 10 * time.Second, 2 * time.Second, 3 * time.Second}, // the defaults
		{8 * time.Second, 6 * time.Second, 500 * time.Millisecond, 1500 * time.Millisecond},
		{12 * time.Second, 10 * time.Second, 2 * time.Second, time.Second},
	} {
		var config cloudconfig.Config
		lease := &config.ComponentConfig.Generic.LeaderElection
		lease.LeaseDuration.Duration, lease.RenewDeadline.Duration, lease.RetryPeriod.Duration = c.duration, c.deadline, c.retry
		if got := stallLimit(config.Complete()); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// configOf is what the framework makes of its flags.
func configOf(t *testing.T, url string, accounts bool) *cloudconfig.CompletedConfig {
	t.Helper()
	c := &cloudconfig.Config{Kubeconfig: &rest.Config{Host: url}}
	lease := &c.ComponentConfig.Generic.LeaderElection
	lease.LeaderElect, lease.LeaseDuration.Duration = true, time.Hour
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
