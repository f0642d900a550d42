package deploy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/apiserver"
)

// TestAStolenTokenSaysOnlyWhatItsOwnNodeAnswersFor: with VIPs on the link agents write one label of
// claims, by which nothing goes.
func TestAStolenTokenSaysOnlyWhatItsOwnNodeAnswersFor(t *testing.T) {
	chart, err := template(namespace, values{"agent": values{"onLink": true, "image": values{"tag": "latest"}}, "controller": latest["controller"]})
	if err != nil {
		t.Fatal(err)
	}
	for name, manifest := range map[string]string{"component": component(t, "on-link"), "chart": chart} {
		t.Run(name, func(t *testing.T) { stolenClaims(t, manifest) })
	}
}

func stolenClaims(t *testing.T, manifest string) {
	s := apiserver.Start(t, apiserver.Options{})
	kubectl(t, s, manifest, "apply", "--server-side", "-f", "-")
	node(t, s, "w1")
	claim := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.1", Labels: map[string]string{networkingv1.LabelManagedBy: "plinth.dev", "plinth.dev/owner": "w2"}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "web"}},
	}
	must(t)(s.Client.NetworkingV1().IPAddresses().Create(t.Context(), claim, metav1.CreateOptions{}))
	thief, unbound := as(t, s, boundToken(t, s, "w1")).NetworkingV1(), as(t, s, token(t, s, nil)).NetworkingV1()
	const mine = `{"metadata":{"labels":{"plinth.dev/owner":"w1"}}}`
	s.Eventually(30*time.Second, "the policy is in force", func(ctx context.Context) error {
		change := fmt.Sprintf(`{"metadata":{"labels":{"plinth.dev/owner":"w%d"}}}`, time.Now().UnixNano())
		if _, err := unbound.IPAddresses().Patch(ctx, claim.Name, types.MergePatchType, []byte(change), metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("a token of no Node is let through"), err)
		}
		return nil
	})
	for _, c := range []struct {
		name, patch string
		allowed     bool
	}{
		{"that another Node answers no more", `{"metadata":{"labels":{"plinth.dev/owner":null}}}`, false},
		{"that its own answers", mine, true},
		{"that another Node answers", `{"metadata":{"labels":{"plinth.dev/owner":"w2"}}}`, false},
		{"another label", `{"metadata":{"labels":{"a":"b"}}}`, false},
		{"whose the claim is", `{"metadata":{"labels":{"ipaddress.kubernetes.io/managed-by":null}}}`, false},
		{"who holds the address", `{"metadata":{"annotations":{"plinth.dev/shared-by":"a/b"}}}`, false},
		{"who is to answer", `{"metadata":{"annotations":{"plinth.dev/homes":"w1"}}}`, false},
		{"a finalizer", `{"metadata":{"finalizers":["example.com/stay"]}}`, false},
		{"an owner", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"w1","uid":"1"}]}}`, false},
		{"that its own answers no more", `{"metadata":{"labels":{"plinth.dev/owner":null}}}`, true},
	} {
		_, err := thief.IPAddresses().Patch(t.Context(), claim.Name, types.MergePatchType, []byte(c.patch), metav1.PatchOptions{})
		switch {
		case c.allowed && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case !c.allowed && !apierrors.IsForbidden(err):
			t.Errorf("%s was let through, or failed for another reason: %v", c.name, err)
		}
	}
	for what, err := range map[string]error{
		"release a VIP": thief.IPAddresses().Delete(t.Context(), claim.Name, metav1.DeleteOptions{}),
		"take a VIP": func() error {
			_, err := thief.IPAddresses().Create(t.Context(), &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.2"}}, metav1.CreateOptions{})
			return err
		}(),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("to %s was let through, or failed for another reason: %v", what, err)
		}
	}
}
