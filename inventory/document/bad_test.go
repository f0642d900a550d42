package document

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
)

// badFile is a file with one mistake; a comment at its top says which.
type badFile struct {
	Document
	expect  string // line:column severity[code]
	suggest string
}

var (
	expectLine  = regexp.MustCompile(`(?m)^# expect: (.*)$`)
	suggestLine = regexp.MustCompile(`(?m)^# suggest: (.*)$`)
)

func badFiles(t testing.TB) []badFile {
	t.Helper()
	names, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal("no bad files", err)
	}
	var out []badFile
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		expect := expectLine.FindSubmatch(data)
		if expect == nil {
			t.Fatalf("%s: no comment says what to expect", name)
		}
		b := badFile{Document: Document{filepath.Base(name), data}, expect: string(expect[1])}
		if s := suggestLine.FindSubmatch(data); s != nil {
			b.suggest = strings.ReplaceAll(string(s[1]), `\n`, "\n")
		}
		out = append(out, b)
	}
	return out
}

func TestEveryMistakeIsFoundWhereItStands(t *testing.T) {
	for _, b := range badFiles(t) {
		t.Run(b.Source, func(t *testing.T) {
			inv, problems := Load(b.Document)
			if len(problems) != 1 {
				t.Fatalf("want one problem, got %d:\n%v", len(problems), problems)
			}
			p := problems[0]
			got := fmt.Sprintf("%d:%d %s[%s]", p.Line, p.Column, p.Severity, p.Code)
			if got != b.expect || p.Suggestion != b.suggest || p.Source != b.Source {
				t.Errorf("want %s, suggestion %q\ngot  %s, suggestion %q\n%v", b.expect, b.suggest, got, p.Suggestion, p)
			}
			if p.Message == "" || p.Accepted == "" && p.Severity == inventory.Error {
				t.Errorf("the problem does not say what is wrong and what would be accepted: %+v", p)
			}
			if (inv == nil) != (p.Severity == inventory.Error) {
				t.Errorf("inventory %v with %v", inv != nil, p)
			}
		})
	}
}

func TestFourInFiveMistakesComeWithASuggestion(t *testing.T) {
	all := badFiles(t)
	with := 0
	for _, b := range all {
		if b.suggest != "" {
			with++
		}
	}
	if len(all) < 60 || 5*with < 4*len(all) {
		t.Errorf("%d of %d files have a suggestion", with, len(all))
	}
}

func TestEveryCodeHasAFileThatShowsIt(t *testing.T) {
	elsewhere := []inventory.Code{inventory.TooManyAliases, inventory.Unlabelled, inventory.PodCIDRKept, inventory.TooManyRemovals, inventory.HeldLosesClaim, inventory.TooLarge, inventory.MachineReplaced, inventory.LeaveLeftBehind, inventory.CopyPassedOver,
		inventory.VIPsUnreachable, inventory.TooManyDrained, inventory.StaysRefused, inventory.Paused, inventory.TrialFailed, inventory.VIPsSwitched, inventory.NotReadBack, inventory.MachineRenamed, inventory.NodesLost, inventory.PodsCut, inventory.PoolTakesCluster, inventory.CopiesOfOneAge, inventory.PoolHoldsCluster, inventory.SharedMatch}
	var shown []string
	for _, b := range badFiles(t) {
		shown = append(shown, b.expect)
	}
	all := strings.Join(shown, "\n")
	for _, d := range CodeDocs() {
		if !strings.Contains(all, "["+string(d.Code)+"]") && !slices.Contains(elsewhere, d.Code) {
			t.Errorf("no bad file shows %s", d.Code)
		}
	}
}
