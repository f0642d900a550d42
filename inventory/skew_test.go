package inventory_test

import (
	"errors"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
)

func TestOnlyAFormatThatIsKnownIsRead(t *testing.T) {
	for _, c := range []struct {
		annotations map[string]string
		reads       int
		ok          bool
	}{
		{nil, 1, true}, // stored before objects had a number
		{map[string]string{"other": "2"}, 1, true},
		{map[string]string{inventory.AnnotationFormat: "1"}, 1, true},
		{map[string]string{inventory.AnnotationFormat: "1"}, 2, true},
		{map[string]string{inventory.AnnotationFormat: "2"}, 2, true},
		{map[string]string{inventory.AnnotationFormat: "2"}, 1, false},
		{map[string]string{inventory.AnnotationFormat: "99999999999999999999"}, 1, false},
		{map[string]string{inventory.AnnotationFormat: "1.5"}, 1, false},
		{map[string]string{inventory.AnnotationFormat: "0"}, 1, false},
		{map[string]string{inventory.AnnotationFormat: ""}, 1, false},
	} {
		err := inventory.CheckFormat("configmap x", c.annotations, c.reads)
		if (err == nil) != c.ok {
			t.Errorf("%v, of which up to %d is read: %v", c.annotations, c.reads, err)
		}
		newer := (*inventory.NewerFormatError)(nil)
		if err != nil && (!errors.As(err, &newer) || newer.Format != c.annotations[inventory.AnnotationFormat] || !strings.Contains(err.Error(), "configmap x")) {
			t.Errorf("%v: the error is %v", c.annotations, err)
		}
	}
}
