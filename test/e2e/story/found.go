package story

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/test/lab"
)

// CausesOfE2E are the causes of a session that is down that package e2e provokes. Package labs provokes all others.
var CausesOfE2E = []string{"ASNMismatch", "Refused", "RouterShutdown", "TTLMismatch"}

// BrokenAt says why the first step of a chain of `plinth why` that does not hold is not this one, with these
// words.
func BrokenAt(ctx context.Context, l *lab.Lab, what, step, words string) error {
	var chain diagnose.Chain
	if err := l.Ask(ctx, &chain, "why", what); err != nil {
		return err
	}
	if fault, _ := chain.Fault(); fault.Step != step || !strings.Contains(fault.Reason+" "+fault.Text, words) {
		return fmt.Errorf("%s: want %s at the step %s: %+v", what, words, step, chain.Links)
	}
	return nil
}

// InStatus says why `plinth status` has nothing with these words of a thing, or of what it belongs to.
func InStatus(ctx context.Context, l *lab.Lab, name, words string) error {
	var status diagnose.Status
	if err := l.Ask(ctx, &status, "status"); err != nil {
		return err
	}
	if !slices.ContainsFunc(status.Findings, func(f diagnose.Finding) bool {
		return (f.Name == name || f.Of == name) && strings.Contains(f.Reason+" "+f.Message, words)
	}) {
		return fmt.Errorf("the status says nothing of %s and %s: %q", name, words, status.NotWell)
	}
	return nil
}

// AllWell says what plinth status has to say.
func AllWell(ctx context.Context, l *lab.Lab) error {
	text, well, err := l.Status(ctx)
	if err == nil && !well {
		err = errors.New(text)
	}
	return err
}

// Holds says why some step of a chain does not hold.
func Holds(ctx context.Context, l *lab.Lab, what string) error {
	var chain diagnose.Chain
	if err := l.Ask(ctx, &chain, "why", what); err != nil {
		return err
	}
	if fault, found := chain.Fault(); found {
		return fmt.Errorf("%s: %+v", what, fault)
	}
	return nil
}
