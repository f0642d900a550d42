package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Names of the objects in deploy/.
const (
	Name        = "plinth-inventory-webhook" // of the Service, the Secret and the ValidatingWebhookConfiguration
	WebhookName = "inventory.plinth.dev"     // in the latter
)

// attempts is how often two replicas may come in each other's way in one look.
const attempts = 5

// reconcile has a certificate in the Secret, its authority in the webhook's configuration, and
// then serves it.
func (s *Server) reconcile(ctx context.Context) (err error) {
	for range attempts {
		if err = s.reconcileOnce(ctx); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// reconcileOnce reads the configuration before the Secret, and writes it only as it was read:
// what a replica writes there that read the Secret earlier cannot come last.
func (s *Server) reconcileOnce(ctx context.Context) error {
	config, err := s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading validatingwebhookconfiguration %s: %w", Name, err)
	}
	secrets := s.Client.CoreV1().Secrets(s.Namespace)
	secret, err := secrets.Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading secret %s/%s: %w", s.Namespace, Name, err)
	}
	host := Name + "." + s.Namespace + ".svc"
	pair, why := readCertificate(secret.Data, host, time.Now())
	if why != nil {
		if secret.Data, err = newCertificate(host, s.validity, secret.Data[keyAuthorities]); err != nil {
			return fmt.Errorf("making a certificate: %w", err)
		}
		if secret, err = secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing secret %s/%s: %w", s.Namespace, Name, err)
		}
		made, err := tls.X509KeyPair(secret.Data[keyCertificate], secret.Data[keyPrivate])
		if err != nil {
			return fmt.Errorf("reading a certificate that was just made: %w", err)
		}
		pair = &made
		s.Log.Info("made a new certificate for the inventory webhook", "because", why.Error(), "until", pair.Leaf.NotAfter)
	}
	if err := s.trust(ctx, config, secret.Data[keyAuthorities]); err != nil {
		return err
	}
	s.serving.Store(pair)
	return nil
}

// trust makes the API server trust the authority.
func (s *Server) trust(ctx context.Context, config *admissionregistrationv1.ValidatingWebhookConfiguration, authorities []byte) error {
	at := slices.IndexFunc(config.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == WebhookName })
	if at < 0 {
		return fmt.Errorf("validatingwebhookconfiguration %s has no webhook %s: apply the manifests of this version", Name, WebhookName)
	}
	if bytes.Equal(config.Webhooks[at].ClientConfig.CABundle, authorities) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": config.ResourceVersion},
		"webhooks": []any{map[string]any{"name": WebhookName, "clientConfig": map[string]any{"caBundle": authorities}}},
	})
	if err != nil {
		return err
	}
	_, err = s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(ctx, Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("writing validatingwebhookconfiguration %s: %w", Name, err)
	}
	return nil
}
