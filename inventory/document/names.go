package document

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// Forms of text that Kubernetes, or BGP, prescribe.
var (
	subdomainForm  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	dnsLabelForm   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	labelForm      = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	idForm         = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.~:]*[A-Za-z0-9])?$`)
	providerIDForm = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9+.]*://[!-~]+$`)
	secretKeyForm  = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)
	labelJunk      = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

func name(s string) (string, *refusal) {
	return form(s, subdomainForm, 63, inventory.BadName, `at most 63 lower-case letters, digits, "-" and "."`)
}

func nodeName(s string) (string, *refusal) {
	return form(s, subdomainForm, 253, inventory.BadName, `lower-case letters, digits, "-" and ".", as Kubernetes wants names`)
}

func namespace(s string) (string, *refusal) {
	return form(s, dnsLabelForm, 63, inventory.BadName, `at most 63 lower-case letters, digits and "-"`)
}

func hostname(s string) (string, *refusal) {
	return form(s, subdomainForm, 253, inventory.BadHostname, "a host name of lower-case letters, digits, - and .")
}

// form refuses text that is not of a form of lower-case letters, and suggests
// what is near it and would be.
func form(text string, want *regexp.Regexp, longest int, code inventory.Code, accepted string) (string, *refusal) {
	if len(text) <= longest && want.MatchString(text) {
		return text, nil
	}
	refused := &refusal{code: code, message: "is not a name of the right form", accepted: accepted}
	if len(text) > longest {
		refused.message = "is too long"
	}
	fixed := strings.Trim(strings.ReplaceAll(labelJunk.ReplaceAllString(strings.ToLower(text), "-"), "_", "-"), "-.")
	if len(fixed) <= longest && want.MatchString(fixed) {
		refused.suggestion = fixed
	}
	return "", refused
}

func labelText(s string) (string, *refusal) {
	if s == "" || len(s) <= 63 && labelForm.MatchString(s) {
		return s, nil
	}
	r := &refusal{code: inventory.BadLabel, message: "is not a label value", accepted: `at most 63 letters, digits, "-", "_" and ".", with a letter or digit at both ends`}
	if fixed := strings.Trim(labelJunk.ReplaceAllString(s, "-"), "-._"); len(fixed) <= 63 {
		r.suggestion = fixed
	}
	return "", r
}

// labelKey reads prefix/name, or a name alone.
func labelKey(text string) (string, *refusal) {
	prefix, rest, qualified := strings.Cut(text, "/")
	if !qualified {
		prefix, rest = "", text
	}
	goodPrefix := !qualified || len(prefix) <= 253 && subdomainForm.MatchString(prefix)
	if goodPrefix && len(rest) <= 63 && labelForm.MatchString(rest) {
		return text, nil
	}
	refused := &refusal{code: inventory.BadLabel, message: "is not a label key",
		accepted: `a name of at most 63 letters, digits, "-", "_" and ".", if wanted after a DNS name and "/"`}
	fixed := strings.Trim(labelJunk.ReplaceAllString(rest, "-"), "-._")
	if qualified {
		fixed = strings.ToLower(prefix) + "/" + fixed
	}
	if p, _, ok := strings.Cut(fixed, "/"); fixed != text && (!ok || subdomainForm.MatchString(p)) {
		refused.suggestion = fixed
	}
	return "", refused
}

func machineID(text string) (string, *refusal) {
	if len(text) <= 200 && idForm.MatchString(text) {
		return text, nil
	}
	refused := &refusal{code: inventory.BadID, message: "cannot stand in a providerID", accepted: `at most 200 letters, digits, "-", "_", ".", "~" and ":"`}
	if rest, ok := strings.CutPrefix(text, inventory.ProviderScheme+"://"); ok && idForm.MatchString(rest) {
		refused.suggestion = rest
	} else if fixed := strings.Trim(labelJunk.ReplaceAllString(text, "-"), "-._"); idForm.MatchString(fixed) {
		refused.suggestion = fixed
	}
	return "", refused
}

func uuid(s string) (string, *refusal) {
	if u, ok := inventory.ParseUUID(s); ok {
		return u.String(), nil
	}
	r := &refusal{code: inventory.BadUUID, message: "is not a UUID", accepted: "32 hexadecimal digits, as kubectl get node -o yaml shows them in systemUUID"}
	if u, ok := inventory.ParseUUID(strings.NewReplacer("-", "", "{", "", "}", "", " ", "", "urn:uuid:", "").Replace(strings.ToLower(s))); ok {
		r.suggestion = u.String()
	}
	return "", r
}

func alias(text string) (string, *refusal) {
	refused := &refusal{code: inventory.BadAlias, message: "is not a foreign providerID", accepted: "scheme://rest, as the Node has it in spec.providerID"}
	switch {
	case strings.HasPrefix(text, inventory.ProviderScheme+"://"):
		refused.message, refused.suggestion, refused.elsewhere = "is a providerID of Plinth's own", "id: "+strings.TrimPrefix(text, inventory.ProviderScheme+"://"), true
		return "", refused
	case len(text) > 253 || !providerIDForm.MatchString(text):
		if scheme, rest, ok := strings.Cut(text, ":"); ok {
			if fixed := scheme + "://" + strings.TrimLeft(rest, "/"); providerIDForm.MatchString(fixed) {
				refused.suggestion = fixed
			}
		}
		return "", refused
	}
	return text, nil
}

func secretKey(s string) (string, *refusal) {
	if len(s) <= 253 && secretKeyForm.MatchString(s) {
		return s, nil
	}
	return "", &refusal{code: inventory.BadName, message: "is not the key of a Secret", accepted: `letters, digits, "-", "_" and "."`,
		suggestion: strings.Trim(labelJunk.ReplaceAllString(s, "-"), "-")}
}

// reason reads one line for people.
func reason(s string) (string, *refusal) {
	if len(s) <= 1024 && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
		return s, nil
	}
	return "", &refusal{code: inventory.BadText, message: "is not one short line", accepted: "at most 1024 characters in one line",
		suggestion: inventory.CutText(strings.Join(strings.Fields(s), " "), 1024)}
}

// reservation reads namespace/name; its address is the key before it.
func reservation(s string) (inventory.Reservation, *refusal) {
	ns, svc, _ := strings.Cut(s, "/")
	_, ref := namespace(ns)
	_, ref2 := name(svc)
	if ref == nil && ref2 == nil {
		return inventory.Reservation{Namespace: ns, Name: svc}, nil
	}
	refused := &refusal{code: inventory.BadService, message: "does not name a Service", accepted: "namespace/name"}
	if parts := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r == '/' || r == ':' || r == ' ' || r == '.' }); len(parts) == 2 {
		refused.suggestion = parts[0] + "/" + parts[1]
	} else if len(parts) == 1 {
		refused.suggestion = "default/" + parts[0]
	}
	return inventory.Reservation{}, refused
}

// readAddressKey reads an address that stands as a key.
func readAddressKey(d *decoder, n *yaml.Node) (string, bool) {
	addr, ref := readAddr(n.Value)
	if ref != nil {
		ref.value = n.Value
		d.refuse(n, *ref)
		return "", false
	}
	return addr.String(), true
}

// community reads the value of a community.
func community(s string) (inventory.Community, *refusal) {
	c, err := inventory.ParseCommunity(s)
	if err != nil {
		return c, badCommunity(s, err)
	}
	return c, nil
}

func badCommunity(text string, err error) *refusal {
	high, low, _ := strings.Cut(text, ":")
	refused := &refusal{code: inventory.BadCommunity, message: err.Error(), accepted: `"65010:100", "large:65010:1:7" or a well-known name such as no-export`}
	for _, fixed := range []string{"large:" + text, strings.ReplaceAll(text, ",", ":"), strings.ReplaceAll(text, " ", ":"), strings.ToLower(strings.ReplaceAll(text, "_", "-")), "large:" + high + ":0:" + low} {
		if _, err := inventory.ParseCommunity(fixed); err == nil {
			refused.suggestion = fixed
			return refused
		}
	}
	return refused
}

// portal keeps an iSCSI portal as volumes write it: address:port.
func portal(s string) (string, *refusal) {
	if _, err := netip.ParseAddrPort(s); err == nil {
		return s, nil
	}
	r := &refusal{code: inventory.BadAddress, message: "is not a portal", accepted: "address:port"}
	if a, err := netip.ParseAddr(s); err == nil {
		r.suggestion = netip.AddrPortFrom(a, 3260).String()
	}
	return "", r
}

// anyKey takes every key as it is.
func anyKey(_ *decoder, n *yaml.Node) (string, bool) { return n.Value, true }

// unknownCommunity refuses what is neither a name nor a community.
func (d *decoder) unknownCommunity(scalar scalar[string], named map[string]inventory.Community, err error) {
	if d.part && !strings.Contains(scalar.v, ":") {
		return // it may be a name
	}
	if looksLikeCommunity(scalar.v) {
		d.refuse(scalar.node, *badCommunity(scalar.v, err))
		return
	}
	names := append(slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(inventory.WellKnownCommunities))...)
	d.refuse(scalar.node, refusal{code: inventory.UnknownCommunity, message: "is neither a name in spec.communities nor a community",
		accepted: "a name in spec.communities, a well-known name, or 65010:100", suggestion: Nearest(scalar.v, names)})
}

// looksLikeCommunity distinguishes a community that is written badly from a name.
func looksLikeCommunity(s string) bool {
	return s != "" && s[0] >= '0' && s[0] <= '9'
}
