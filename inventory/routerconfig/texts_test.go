package routerconfig

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// texts are all that is written in a language, by inventory and router.
func texts(t *testing.T, language string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, inv := range subjects(t) {
		for _, router := range inv.Routers {
			if text, err := Render(inv, router.Name, language, Options{}); err == nil && len(newSide(inv, router).groups) > 0 {
				out[name+"/"+router.Name] = string(text)
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("no text of %s: this test says nothing", language)
	}
	return out
}

// A limit that only logs protects nothing, and one without a timer keeps a machine out
// until somebody clears the session by hand.
func TestALimitEndsTheSessionAndLetsItComeBack(t *testing.T) {
	for language, want := range map[string]struct{ limit, comesBack string }{
		"frr":      {`maximum-prefix \d+`, `maximum-prefix \d+ restart 5$`},
		"bird":     {`import limit \d+`, `import limit \d+ action restart;$`},
		"openbgpd": {`max-prefix \d+`, `max-prefix \d+ restart 5$`},
		"junos":    {`prefix-limit maximum \d+$`, `prefix-limit teardown 80 idle-timeout 5$`},
		"eos":      {`neighbor \S+ maximum-routes \d+$`, `neighbor \S+ idle-restart-timer 300$`},
		"nvue":     {`prefix-limits inbound maximum \d+$`, `prefix-limits inbound maximum \d+$`}, // comes back by default
		"vyos":     {`maximum-prefix \d+$`, `maximum-prefix \d+$`},                               // has no timer: see below
	} {
		for name, text := range texts(t, language) {
			limits, back := occurrences(want.limit, text), occurrences(want.comesBack, text)
			if limits == 0 || limits != back {
				t.Errorf("%s, %s: %d limits, of which %d end the session for a time:\n%s", language, name, limits, back, text)
			}
		}
	}
}

func occurrences(pattern, text string) int {
	return len(regexp.MustCompile("(?m)"+pattern).FindAllString(text, -1))
}

func TestVyOSSaysThatItHasNoTimer(t *testing.T) {
	for name, text := range texts(t, "vyos") {
		if !strings.Contains(text, "# NOTE: VyOS has no timer beside a limit") {
			t.Errorf("%s: a session that was closed by its limit stays down, and nobody says so:\n%s", name, text)
		}
	}
}

// What a person pastes must not put into force what somebody else has left pending.
func TestNVUEAppliesNothingByItself(t *testing.T) {
	for name, text := range texts(t, "nvue") {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if !slices.Contains(lines, "nv config diff") {
			t.Errorf("%s: shows no difference to review", name)
		}
		for _, l := range lines {
			if strings.HasPrefix(l, "nv config apply") {
				t.Errorf("%s: applies what others have left pending: %s", name, l)
			}
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "# nv config apply --confirm") {
			t.Errorf("%s: does not say how to apply it: ends with %q", name, last)
		}
	}
}
