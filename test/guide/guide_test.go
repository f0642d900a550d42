package guide

import (
	"slices"
	"testing"
)

const page = `# Move

Type this:

` + "```console\nfirst\n```" + `

## Before the move

` + "```yaml\nno: command\n```\n\n```console\nsecond\nthird\n```" + `

## After it

` + "```console\nfourth\n```\n"

func TestTheCommandsOfASectionAreThoseBelowItsHeading(t *testing.T) {
	if got := Lines(page); !slices.Equal(got, []string{"first", "second", "third", "fourth"}) {
		t.Errorf("all commands: %q", got)
	}
	section, err := Section(page, "Before")
	if got := Lines(section); err != nil || !slices.Equal(got, []string{"second", "third"}) {
		t.Errorf("those before: %q, %v", got, err)
	}
	if got := Blocks(section); !slices.Equal(got, []string{"second\nthird\n"}) {
		t.Errorf("the blocks before: %q", got)
	}
}

func TestASectionThatIsNotThereIsAnError(t *testing.T) {
	for _, words := range []string{"Meanwhile", ""} { // none, and two
		if section, err := Section(page, words); err == nil {
			t.Errorf("%q: %q", words, section)
		}
	}
}

func TestNamesThatWereNotSeenAreThoseOfOneSection(t *testing.T) {
	unseen, err := Unseen("reasons.md", "Why a Service gets no VIP", []string{"NoPools"})
	if err != nil || slices.Contains(unseen, "NoPools") || !slices.Contains(unseen, "PoolUnknown") || slices.Contains(unseen, "NoEndpoint") {
		t.Errorf("unseen are %q, %v", unseen, err)
	}
	if unseen, err := Unseen("reasons.md", "Why a session does", nil); err == nil {
		t.Errorf("half a heading is taken: %q", unseen)
	}
}
