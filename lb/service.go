package lb

import (
	"cmp"
	"strings"
)

// ServiceKey names a Service.
type ServiceKey struct{ Namespace, Name string }

func (k ServiceKey) String() string { return k.Namespace + "/" + k.Name }

// Compare sorts by namespace and name.
func (k ServiceKey) Compare(o ServiceKey) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// ParseServiceKey parses the output of [ServiceKey.String]; ok is false where a part is missing.
func ParseServiceKey(s string) (k ServiceKey, ok bool) {
	ns, name, ok := strings.Cut(s, "/")
	return ServiceKey{Namespace: ns, Name: name}, ok && ns != "" && name != ""
}
