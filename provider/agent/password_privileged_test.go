//go:build privileged

package agent

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/plan"
)

// page gathers all that is logged.
type page struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

// logged has the log written to a page, in all detail, for the length of a test.
func logged(t testing.TB) *page {
	p, before := &page{}, slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(p, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { slog.SetDefault(before) })
	return p
}

// get is what the agent serves at a path.
func (a running) get(path string) string {
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Body.String()
}

func TestPasswordsAreTakenFromTheirSecretRotateAndNeverShow(t *testing.T) {
	const one, two = "first-s3cret", "second-s3cret"
	log := logged(t)
	ask, configure, _ := routerWithout(t)
	configure(`password "` + one + `";`)
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(proxy.Close)
	client := fake.NewClientset(append(aService("web", "203.0.113.5"),
		aNode("w1", "10.1.0.11", "fd01::11", "10.244.1.0/24", "fd00:244:0:1::/64"))...)
	text := strings.NewReplacer("STATE", "active", "holdTime: 9s", "holdTime: 3s, passwordFrom: {secret: bgp, key: tor}").Replace(site)
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(text)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	a := start(t, client, inv, t.TempDir(), proxy.URL, func(o *Options) { o.Speaker = bgp.NewSpeaker(bgp.Options{Log: slog.Default()}) })

	var shown strings.Builder
	down := func(cause bgp.Cause) {
		t.Helper()
		eventually(t, fmt.Sprintf("the session is down for %s", cause), func() (bool, string) {
			s := a.show(t)
			return len(s.Sessions) == 1 && !s.Sessions[0].Up && s.Sessions[0].Cause == string(cause), fmt.Sprintf("%+v", s.Sessions)
		})
		shown.WriteString(a.get("/status") + a.get("/metrics"))
	}
	secret := func(password string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bgp"}, Data: map[string][]byte{"tor": []byte(password)}}
	}
	update := func(password string) {
		t.Helper()
		if _, err := client.CoreV1().Secrets("kube-system").Update(t.Context(), secret(password), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	vip := []string{"10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64"}

	down(bgp.PasswordMissing)
	if _, err := client.CoreV1().Secrets("kube-system").Create(t.Context(), secret(one), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	learned(t, ask, vip...)
	losses := a.show(t).Sessions[0].Losses
	configure(`password "` + two + `";`)
	update(two)
	eventually(t, "the session is up with the new password", func() (bool, string) {
		s := a.show(t)
		return len(s.Sessions) == 1 && s.Sessions[0].Up && s.Sessions[0].Losses > losses, fmt.Sprintf("%+v", s.Sessions)
	})
	learned(t, ask, vip...)
	shown.WriteString(a.get("/status") + a.get("/metrics") + a.get("/healthz") + a.get("/readyz"))
	a.stop()

	for _, action := range client.Actions() {
		if action.GetVerb() != "get" && action.GetVerb() != "list" && action.GetVerb() != "watch" && action.GetResource().Resource != "secrets" {
			fmt.Fprintf(&shown, "%+v\n", action) // conditions, Events
			if p, ok := action.(clienttesting.PatchAction); ok {
				shown.Write(p.GetPatch())
			}
		}
	}
	for _, password := range []string{one, two} {
		for form, word := range map[string]string{"itself": password, "in base64": base64.StdEncoding.EncodeToString([]byte(password)), "in hex": fmt.Sprintf("%x", password)} {
			if strings.Contains(shown.String(), word) {
				t.Errorf("%s %s is in /status, the metrics or what was written to the API", password, form)
			}
			if strings.Contains(log.String(), word) {
				t.Errorf("%s %s is in the log", password, form)
			}
		}
	}
	if want := `plinth_agent_session_down{address="10.1.0.1",cause="PasswordMissing",router="tor"} 1`; !strings.Contains(shown.String(), want) {
		t.Errorf("no metric %s", want)
	}
	if !strings.Contains(log.String(), string(bgp.PasswordMissing)) || !strings.Contains(shown.String(), "plinth.dev/FabricReady") {
		t.Error("the log or the condition was not seen at all")
	}
}

// forbid has the API server let nobody read a Secret.
func forbid(client *fake.Clientset, name string) {
	client.PrependReactor("list", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if _, only := action.(clienttesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("metadata.name"); !only {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), name, errors.New("the role does not name it"))
	})
}

func TestASecretThatMayNotBeReadIsMissedByItsOwnSessionAlone(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	forbid(client, "bgp-edge")
	text := strings.NewReplacer("STATE", "active", "asn: 65001}]",
		"asn: 65001}, {name: edge, address: 10.1.0.2, asn: 65002, passwordFrom: {secret: bgp-edge, key: edge}}]").Replace(site)
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(text)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	a := start(t, client, inv, t.TempDir(), proxyURL, nil)
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64")
	if _, err := client.NetworkingV1().IPAddresses().Create(t.Context(), aClaim("203.0.113.8", "prod", "web", "uid-1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	learned(t, ask, "10.244.1.0/24", "203.0.113.5/32", "203.0.113.8/32", "fd00:244:0:1::/64")
	s := a.show(t)
	if s.WaitingFor != "" || len(s.Sessions) != 2 || s.Sessions[0].Router != "edge" || s.Sessions[0].Cause != string(bgp.PasswordMissing) {
		t.Errorf("waiting for %q, sessions %+v", s.WaitingFor, s.Sessions)
	}
	eventually(t, "the condition is False", func() (bool, string) {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		c := plan.NodeOf(n).Condition
		return err == nil && c.Ready == corev1.ConditionFalse && lb.ParseReport(c.Message).Sessions == 1, fmt.Sprint(c, err)
	})
}
