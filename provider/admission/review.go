package admission

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
)

// How much of the problems is told: what a terminal shows at once, and what the API server lets
// pass as warnings (256 characters each, 4,096 in all).
const (
	mostErrors   = 20
	errorBytes   = 8 << 10
	mostWarnings = 15
	warningBytes = 250
)

// Review answers whether a ConfigMap may be stored.
func Review(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	allowed := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	var now, before v1.ConfigMap
	if err := json.Unmarshal(request.Object.Raw, &now); err != nil {
		allowed.Warnings = []string{"the inventory was not looked at, for the ConfigMap cannot be read: " + inventory.ShortenText(err.Error(), warningBytes/2)}
		return allowed
	}
	isUpdate := request.Operation == admissionv1.Update && json.Unmarshal(request.OldObject.Raw, &before) == nil
	if _, ours := now.Labels[source.LabelInventory]; !ours {
		if isUpdate && before.Labels[source.LabelInventory] != "" {
			allowed.Warnings = []string{"without the label " + source.LabelInventory + " this ConfigMap is no part of the inventory any more"}
		}
		return allowed
	}
	now.Namespace, now.Name = cmp.Or(now.Namespace, request.Namespace), cmp.Or(now.Name, request.Name, now.GenerateName)
	problems := source.Check(&now)
	if errs := problems.Errors(); len(errs) > 0 && !(isUpdate && same(&now, &before)) {
		return refused(request, errs, problems.Warnings())
	}
	allowed.Warnings = warnings(problems)
	return allowed
}

// same reports whether two ConfigMaps say the same of the inventory: then only something else is
// changed, such as an annotation that lets an edit pass, or a finalizer.
func same(a, b *v1.ConfigMap) bool {
	return a.Labels[source.LabelInventory] == b.Labels[source.LabelInventory] &&
		maps.Equal(a.Data, b.Data) && maps.EqualFunc(a.BinaryData, b.BinaryData, bytes.Equal)
}

// refused says all errors, or as many as are read.
func refused(request *admissionv1.AdmissionRequest, errs, others inventory.Problems) *admissionv1.AdmissionResponse {
	var text strings.Builder
	count := fmt.Sprintf("%d errors", len(errs))
	if len(errs) == 1 {
		count = "an error"
	}
	fmt.Fprintf(&text, "the inventory has %s here, and the ConfigMap stays as it was:", count)
	for i, p := range errs {
		line := "\n" + inventory.ShortenText(p.String(), errorBytes/2)
		if i == mostErrors || text.Len()+len(line) > errorBytes {
			fmt.Fprintf(&text, "\n… and %d more: plinth validate prints all", len(errs)-i)
			break
		}
		text.WriteString(line)
	}
	fmt.Fprintf(&text, "\nplinth explain %s says more", errs[0].Code)
	return &admissionv1.AdmissionResponse{
		UID: request.UID, Warnings: warnings(others),
		Result: &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: text.String()},
	}
}

// warnings are problems that stop nobody, as kubectl prints them.
func warnings(problems inventory.Problems) (out []string) {
	for i, p := range problems {
		if i == mostWarnings {
			return append(out, fmt.Sprintf("… and %d more: plinth validate prints all", len(problems)-i))
		}
		out = append(out, inventory.ShortenText(p.String(), warningBytes))
	}
	return out
}
