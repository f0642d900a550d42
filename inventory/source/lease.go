package source

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// DefaultLease is the name of the controllers' lease, unless --leader-elect-resource-name gives another.
const DefaultLease = "cloud-controller-manager"

// Annotations of the ConfigMap [AcceptedName] by which leaders of leases with different names follow one another, as
// provider/installation has it.
const (
	AnnotationLease     = "plinth.dev/lease"      // the lease that the installation runs on; none: [DefaultLease]
	AnnotationNextLease = "plinth.dev/next-lease" // the lease of the leader that asks to follow; none: there is none
	AnnotationProgram   = "plinth.dev/program"    // the last program that led and is called otherwise than Plinth's; none: there was none
)

// ownPrograms is the prefix of the names of Plinth's programs, by which an API server knows the writer of an object.
const ownPrograms = "plinth-"

// IsOwnProgram reports whether a program is called as those of Plinth's. One that links the provider may have any name.
func IsOwnProgram(name string) bool { return strings.HasPrefix(name, ownPrograms) }

// Program returns the name that an API server has for this process, where it is not one of Plinth's; empty: it is.
func Program() string {
	name, _, _ := strings.Cut(rest.DefaultKubernetesUserAgent(), "/")
	if IsOwnProgram(name) {
		return ""
	}
	return name
}

// LeaseOf returns the name of the lease that an installation runs on, as its ConfigMap [AcceptedName] has it; nil: nothing was
// accepted.
func LeaseOf(common *v1.ConfigMap) string {
	if common == nil {
		return DefaultLease
	}
	return cmp.Or(common.Annotations[AnnotationLease], DefaultLease)
}

// otherLease returns the lease of the leader that stored the inventory, where that is another than this one; empty: it is not. Of
// leaders with different leases one alone acts.
func otherLease(common *v1.ConfigMap, lease string) string {
	if by := LeaseOf(common); lease != "" && common != nil && by != lease {
		return by
	}
	return ""
}

// sign writes the lease and the program of the writer into the ConfigMap that lists the slices. A value that the writer does
// not have, as one that was not elected, stays as it is there.
func sign(want, have *v1.ConfigMap, lease, program string) {
	if want.Name != AcceptedName {
		return
	}
	for annotation, value := range map[string]string{AnnotationLease: lease, AnnotationProgram: program} {
		if value == "" && have != nil {
			value = have.Annotations[annotation]
		}
		if value != "" {
			want.Annotations[annotation] = value
		}
	}
}
