package provider

import (
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

func TestStatusThatTheStockControllerCouldNotWriteIsHandedOver(t *testing.T) {
	services := v1.Resource(resourceOfService)
	failure := error(apierrors.NewInternalError(errors.New("the store does not answer")))
	gone := error(apierrors.NewNotFound(services, "a"))
	for name, tt := range map[string]struct {
		answer, hears error
		queued        []string
	}{
		"it is not as it was read": {apierrors.NewConflict(services, "a", errOtherService), nil, []string{"d/a"}},
		"the API server fails":     {failure, failure, []string{"d/a"}},
		"it is gone":               {gone, gone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeld(t)
			close(h.ready)
			if _, err := h.EnsureLoadBalancer(t.Context(), "", h.svc[0], nil); err != nil {
				t.Fatal(err)
			}
			h.queued()
			h.client.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.answer })
			stock := serviceClient{Interface: h.client, balancer: h.balancer}
			gives := []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.0","ipMode":"VIP"}]}}}`)
			_, err := stock.CoreV1().Services("d").Patch(t.Context(), "a", types.StrategicMergePatchType, gives, metav1.PatchOptions{}, "status")
			if !errors.Is(err, tt.hears) {
				t.Errorf("the stock controller hears %v, want %v", err, tt.hears)
			}
			if got := h.queued(); !slices.Equal(got, tt.queued) {
				t.Errorf("queued %v, want %v", got, tt.queued)
			}
			if h.writes(h.key(0)) != (tt.queued != nil) {
				t.Error("it is not for Plinth's own controller to write")
			}
		})
	}
}

// TestStockControllerIsToldOfNoServiceThatIsGone has it take the finalizer off one, which it
// does once for each change that it heard of: the status was cleared, then the Service went.
func TestStockControllerIsToldOfNoServiceThatIsGone(t *testing.T) {
	for name, cached := range map[string]bool{"while the cache has it": true, "once the cache knows": false} {
		t.Run(name, func(t *testing.T) {
			h := newHeld(t)
			svc := leaving(h.svc[0])
			if err := h.known.Update(svc); err != nil {
				t.Fatal(err)
			}
			if !cached {
				if err := h.known.Delete(svc); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.client.Tracker().Delete(v1.SchemeGroupVersion.WithResource("services"), "d", "a"); err != nil {
				t.Fatal(err)
			}
			stock := serviceClient{Interface: h.client, balancer: h.balancer}
			for _, patch := range []string{
				`{"metadata":{"$deleteFromPrimitiveList/finalizers":["service.kubernetes.io/load-balancer-cleanup"]}}`,
				`{"metadata":{"finalizers":null}}`,
			} {
				if _, err := stock.CoreV1().Services("d").Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
					t.Errorf("it hears %v, and makes an Event of it", err)
				}
			}
		})
	}
}
