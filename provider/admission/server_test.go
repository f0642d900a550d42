package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	certutil "k8s.io/client-go/util/cert"

	"plinth.dev/plinth/wait"
)

const (
	testNamespace = "kube-system"
	testHost      = "plinth-inventory-webhook.kube-system.svc"
)

// cluster has the objects of deploy/, as they are before anybody wrote to them. A Secret is
// written only as it was read, as an API server has it.
func cluster() *fake.Clientset {
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: testNamespace, ResourceVersion: "1"}}
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: Name}}
	config.Webhooks = []admissionregistrationv1.ValidatingWebhook{{Name: WebhookName}}
	client := fake.NewClientset(secret, config)
	var lock sync.Mutex
	client.PrependReactor("update", "secrets", func(action k8stesting.Action) (bool, runtime.Object, error) {
		lock.Lock()
		defer lock.Unlock()
		next := action.(k8stesting.UpdateAction).GetObject().(*v1.Secret).DeepCopy()
		have, err := client.Tracker().Get(action.GetResource(), testNamespace, Name)
		if err != nil {
			return true, nil, err
		}
		if have.(*v1.Secret).ResourceVersion != next.ResourceVersion {
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), Name, nil)
		}
		next.ResourceVersion += "1"
		return true, next, client.Tracker().Update(action.GetResource(), next, testNamespace)
	})
	return client
}

func replica(client *fake.Clientset) *Server {
	return &Server{Client: client, Namespace: testNamespace, Log: slog.New(slog.DiscardHandler)}
}

func reconcile(t *testing.T, s *Server) {
	t.Helper()
	if err := s.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// trusted are the authorities that the API server knows.
func trusted(t *testing.T, client *fake.Clientset) []byte {
	t.Helper()
	config, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return config.Webhooks[0].ClientConfig.CABundle
}

// listen has a replica serve until the test ends, and returns where.
func listen(t *testing.T, s *Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return "https://" + listener.Addr().String()
}

// post sends a body as an API server does that trusts what it was told to.
func post(t *testing.T, url string, authorities, body []byte) (int, []byte, error) {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		t.Fatalf("no certificate in %q", authorities)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: testHost}}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

func review(t *testing.T, data map[string]string) []byte {
	t.Helper()
	in := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request(t, configMap(data), nil)}
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestTheAPIServerIsAnsweredOverTLS(t *testing.T) {
	client := cluster()
	s := replica(client)
	reconcile(t, s)
	url := listen(t, s)
	for _, c := range []struct {
		text    string
		allowed bool
	}{{good, true}, {typo(), false}} {
		code, text, err := post(t, url, trusted(t, client), review(t, map[string]string{"a.yaml": c.text}))
		var out admissionv1.AdmissionReview
		if err == nil {
			err = json.Unmarshal(text, &out)
		}
		if err != nil || code != http.StatusOK || out.Response == nil || out.Kind != "AdmissionReview" || out.APIVersion != "admission.k8s.io/v1" || out.Response.UID != "42" {
			t.Fatalf("%v, %d: %s", err, code, text)
		}
		if out.Response.Allowed != c.allowed {
			t.Errorf("allowed %v: %s", out.Response.Allowed, text)
		}
	}
}

func TestStrangersAreTurnedAway(t *testing.T) {
	client := cluster()
	s := replica(client)
	reconcile(t, s)
	url := listen(t, s)
	for name, body := range map[string][]byte{
		"no JSON": []byte("{"), "no request": []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`),
		"another version": []byte(strings.Replace(string(review(t, nil)), "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1)),
		"too much":        append(append([]byte(`{"kind":"`), bytes.Repeat([]byte("a"), bodyBytes)...), `"}`...),
	} {
		if code, text, err := post(t, url, trusted(t, client), body); err != nil || code != http.StatusBadRequest {
			t.Errorf("%s: %v, %d: %s", name, err, code, text)
		}
	}
}

func TestReplicasShareOneCertificate(t *testing.T) {
	client := cluster()
	replicas := []*Server{replica(client), replica(client), replica(client)}
	var all sync.WaitGroup
	for _, s := range replicas {
		all.Go(func() {
			if err := s.reconcile(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i, s := range replicas {
		if _, _, err := post(t, listen(t, s), trusted(t, client), review(t, nil)); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
		if !bytes.Equal(s.serving.Load().Certificate[0], replicas[0].serving.Load().Certificate[0]) {
			t.Errorf("replica %d serves another certificate than replica 0", i)
		}
	}
}

func TestACertificateIsReplacedBeforeItEnds(t *testing.T) {
	client := cluster()
	first, second := replica(client), replica(client)
	first.validity = 75 * time.Minute // an hour of which is past: less than a third is left
	reconcile(t, first)
	url, before := listen(t, first), first.serving.Load()
	reconcile(t, second)
	if bytes.Equal(second.serving.Load().Certificate[0], before.Certificate[0]) {
		t.Fatal("the certificate that is near its end is still served")
	}
	if _, _, err := post(t, url, trusted(t, client), review(t, nil)); err != nil {
		t.Errorf("the replica that has not looked yet is not trusted any more: %v", err)
	}
	first.validity = 0
	reconcile(t, first)
	if !bytes.Equal(first.serving.Load().Certificate[0], second.serving.Load().Certificate[0]) {
		t.Error("the other replica serves its old certificate, or a third")
	}
	if _, _, err := post(t, url, trusted(t, client), review(t, nil)); err != nil {
		t.Errorf("after the change: %v", err)
	}
	authorities, err := certutil.ParseCertsPEM(trusted(t, client))
	if err != nil || len(authorities) != 2 {
		t.Errorf("%d authorities are trusted, want the new one and the one before: %v", len(authorities), err)
	}
}

func TestWhatIsOfNoUseIsReplaced(t *testing.T) {
	valid, err := newCertificate(testHost, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newCertificate("example.com", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]map[string][]byte{
		"nothing":           nil,
		"no certificate":    {keyCertificate: []byte("a"), keyPrivate: []byte("b"), keyAuthorities: []byte("c")},
		"another host":      other,
		"another key":       {keyCertificate: valid[keyCertificate], keyPrivate: other[keyPrivate], keyAuthorities: valid[keyAuthorities]},
		"another authority": {keyCertificate: valid[keyCertificate], keyPrivate: valid[keyPrivate], keyAuthorities: other[keyAuthorities]},
		"no authority":      {keyCertificate: valid[keyCertificate], keyPrivate: valid[keyPrivate]},
	} {
		if _, err := readCertificate(data, testHost, time.Now()); err == nil {
			t.Errorf("%s is taken for a certificate", name)
		}
	}
	for name, at := range map[string]time.Duration{"two thirds of the year": 250 * 24 * time.Hour, "two years": 2 * 365 * 24 * time.Hour} {
		if _, err := readCertificate(valid, testHost, time.Now().Add(at)); err == nil {
			t.Errorf("after %s there is no need for another", name)
		}
	}
	if _, err := readCertificate(valid, testHost, time.Now()); err != nil {
		t.Error(err)
	}
}

// What is in order is read, and not written.
func TestNothingIsWrittenWhereNothingChanged(t *testing.T) {
	client := cluster()
	reconcile(t, replica(client))
	client.ClearActions()
	reconcile(t, replica(client))
	for _, action := range client.Actions() {
		if action.GetVerb() != "get" {
			t.Errorf("%s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

func TestWithoutItsObjectsTheWebhookSaysWhatIsMissing(t *testing.T) {
	err := replica(fake.NewClientset()).reconcile(t.Context())
	if err == nil || !strings.Contains(err.Error(), "validatingwebhookconfiguration plinth-inventory-webhook") {
		t.Errorf("%v", err)
	}
}

// lines keeps what is logged.
type lines struct {
	lock sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.String()
}

func TestAPortThatIsTakenIsToldAndTheCertificateKept(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var log lines
	client := cluster()
	s := replica(client)
	s.Address, s.Log = taken.Addr().String(), slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	wait.True(t, 30*time.Second, time.Millisecond, "it has a certificate, and says that it does not serve", func() (bool, string) {
		made, text := s.serving.Load() != nil, log.String()
		return made && strings.Contains(text, "address already in use"), fmt.Sprintf("certificate %t, log:\n%s", made, text)
	})
	cancel()
	<-ended
	if strings.Count(log.String(), "cannot serve") != 1 {
		t.Errorf("log:\n%s", log.String())
	}
}
