package inventory

import (
	"slices"
	"strings"
	"testing"
)

func TestOfTheKeysOfAnInventoryOnlyThoseOfThePasswordLookSecret(t *testing.T) {
	var got []string
	for _, typ := range Types() {
		for _, f := range typ.Fields {
			if looksSecret(f.Key) && !slices.Contains(got, f.Key) {
				got = append(got, f.Key)
			}
		}
	}
	slices.Sort(got)
	if want := []string{"password", "passwordFrom", "secret"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestKeysThatMayBearAPasswordLookSecret(t *testing.T) {
	for _, key := range []string{
		"password", "Password", "passwd", "passwrd", "pasword", "pazswrod", "pass", "PWD", "x-pw", "passphrase", "bgp_password", "secert", "secrets",
		"md5", "tcp-md5-key", "authentication-key", "authKey", "auth", "privateKey", "psk", "token", "credentials",
	} {
		if !looksSecret(key) {
			t.Errorf("%s does not", key)
		}
	}
}

func TestValuesBelowAPasswordAreNotShown(t *testing.T) {
	for _, c := range []struct{ spec, path, message, value, suggestion string }{
		{"bgp: {passwordFrom: hunter6}", "passwordFrom", "is text, not a mapping", NotShown, ""},
		{"bgp: {passwordFrom: a}", "passwordFrom", "is text, not a mapping", NotShown, ""},
		{"bgp: {passwordFrom: {secret: Hunter_6, key: k}}", "passwordFrom.secret", "is not a name of the right form", NotShown, ""},
		{"bgp: {passwordFrom: {secret: s, key: hunter 6}}", "passwordFrom.key", "is not the key of a Secret", NotShown, ""},
		{"bgp: {passwordFrom: {secret: s, key: k, hunter6: x}}", "passwordFrom", "is an unknown key", NotShown, ""},
		{"bgp: {passwordFrom: {secert: s, key: k}}", "passwordFrom", "is an unknown key", NotShown, "secret"},
		{"bgp: {passwrd: hunter6}", "passwrd", "is an unknown key", "passwrd", ""},
	} {
		_, problems := Load(Document{"a", []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec: {" + c.spec + "}\n")})
		i := slices.IndexFunc(problems, func(p Problem) bool { return p.Message == c.message })
		if i < 0 || strings.Contains(strings.ToLower(problems.String()), "hunter") {
			t.Errorf("%s: %v", c.spec, problems)
			continue
		}
		if p := problems[i]; p.Path != "spec.bgp."+c.path || p.Value != c.value || p.Suggestion != c.suggestion {
			t.Errorf("%s: %v", c.spec, p)
		}
	}
}

func TestLinesThatBelongToAPasswordAreKnown(t *testing.T) {
	text := `bgp:
  asn: 1
  passwordFrom:

    secret: s
  holdTime: 9s
racks:
  - {name: a, md5: x}
  - {name: b, key: x}
  - {name: c, match: {key: a, operator: In}}
  - name: d
    password: |
      x
    zone: z
`
	want := []int{3, 4, 5, 8, 9, 12, 13}
	var got []int
	for i := range strings.Count(text, "\n") + 3 {
		if (Document{"a", []byte(text)}).Lines().MayHoldPassword(i) {
			got = append(got, i)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got lines %v, want %v", got, want)
	}
}

// lineOfText is the number of the line of a text that has the mark, and the text without it.
func lineOfText(text string) (int, Document) {
	before, _, _ := strings.Cut(text, "§")
	return strings.Count(before, "\n") + 1, Document{"a", []byte(strings.ReplaceAll(text, "§", ""))}
}

// § marks the line in question.
func TestOrdinaryLinesAreShown(t *testing.T) {
	for _, text := range []string{
		"taints: [{key: dedicated, effect: NoSchedul}]",
		"taints: [{key: dedicated, effekt: NoSchedule}]",
		"taints: [{key: dedicated!}]",
		"- {name: w1, taints: [{value: a, key: b, efect: NoSchedule}], adresses: []}",
		"taints:\n  - §key: dedicated\n    efect: NoSchedule",
		"taints:\n- §key: dedicated!",
		"taints:\n  - effect: NoSchedule\n    §key: dedicated!",
		"tains:\n  - {key: a, effect: b}\n  - §key: dedicated",
		"- efect: NoSchedule\n  §key: dedicated",
		"serviceSelector:\n  matchExpressions:\n    - §key: tier!\n      operator: In",
		"matchExpressions: [{key: a, operatr: In, values: [b]}]",
		"namespaces: [default, keycloak, external-secrets]",
		"namespaces:\n  - §external-secrets",
		"namespaces:\n  - external-secrets\n  - §keycloak!",
		"labels: {keycloak.org/app: a, keyboard: b}",
		"routers: [{name: keystone, adress: 10.0.0.1}]",
	} {
		if n, doc := lineOfText(text); doc.Lines().MayHoldPassword(n) {
			t.Errorf("line %d of\n%s\nis hidden", n, doc.Data)
		}
	}
}

func TestLinesThatAreLikeATaintAndNoneAreHidden(t *testing.T) {
	for _, text := range []string{
		"bgp: {key: hunter6, taints: [{effect: a}]}",
		"{taints: [{key: a, effect: b}], key: hunter6}",
		"bgp:\n  §key: hunter6\n  asn: 1",
		"md5:\n  §key: hunter6\n  effect: x",
		"passwordFrom: {effect: x, key: hunter6}",
		"taints:\n  - key: a\n    effect: b\nbgp:\n  §key: hunter6",
		"[password, hunter6]",
		"- password\n  §hunter6",
		"routers:\n  - md5\n      §a: hunter6",
		"[a, pasword, hunter6]",
		"- [md5, hunter6]",
		"namespaces: [a, {password hunter6}]",
		"namespaces: [external-secrets hunter6]",
	} {
		if n, doc := lineOfText(text); !doc.Lines().MayHoldPassword(n) {
			t.Errorf("line %d of\n%s\nis shown", n, doc.Data)
		}
	}
}

// An example has a password's place, and apostrophes in comments: only that line is hidden.
func TestOnlyTheLineOfThePasswordIsHiddenInAWholeInventory(t *testing.T) {
	doc := documents(t, "full.yaml")[0]
	var got []string
	for n := range strings.Count(string(doc.Data), "\n") {
		if doc.Lines().MayHoldPassword(n + 1) {
			got = append(got, strings.TrimSpace(lineOf(doc.Data, n+1)))
		}
	}
	if len(got) != 1 || !strings.HasPrefix(got[0], "passwordFrom:") {
		t.Errorf("hidden are\n%s", strings.Join(got, "\n"))
	}
}
