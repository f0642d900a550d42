package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"plinth.dev/plinth/test/components"
)

// printAges prints the age of each part.
func printAges(ctx context.Context, w io.Writer, root string, all []part) error {
	var failed []error
	for _, p := range all {
		if ctx.Err() != nil {
			break
		}
		said, err := age(ctx, root, p)
		if err == nil {
			_, err = fmt.Fprintln(w, said)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// age says how far a part's record is behind the code that it is about, in a line.
func age(ctx context.Context, root string, p part) (string, error) {
	r, there, err := read(filepath.Join(root, p.record()))
	if err != nil {
		return "", err
	}
	if !there {
		return fmt.Sprintf("%-12s was never measured", p.name), nil
	}
	if _, err := components.Git(ctx, root, "cat-file", "-e", r.Commit+"^{commit}"); err != nil {
		return fmt.Sprintf("%-12s %s, %s: of a commit that this clone does not have", p.name, r.Commit, r.Date), nil
	}
	since, err := components.Git(ctx, root, append([]string{"log", "--format=%h", r.Commit + "..HEAD", "--"}, p.code...)...)
	if err != nil {
		return "", err
	}
	if n := len(strings.Fields(since)); n > 0 {
		return fmt.Sprintf("%-12s %s, %s: %d commits older than its code", p.name, r.Commit, r.Date, n), nil
	}
	return fmt.Sprintf("%-12s %s, %s: of today's code", p.name, r.Commit, r.Date), nil
}
