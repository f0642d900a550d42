package components

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Git runs git in a source tree and returns what it prints, without the last line break.
func Git(ctx context.Context, root string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", root}, arguments...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// Commit returns the abbreviated commit of a source tree, for who writes down what was measured on it. A tree that was
// changed is of none, but for the docs, which that is written into.
func Commit(ctx context.Context, root string) (string, error) {
	changed, err := Git(ctx, root, "status", "--porcelain", "--", ".", ":!docs", ":!README.md")
	if err != nil {
		return "", err
	}
	if changed != "" {
		return "", fmt.Errorf("what would be measured is of no commit: commit these files first, or put them away\n%s", changed)
	}
	return Git(ctx, root, "rev-parse", "--short=8", "HEAD")
}

// StillAt says why a source tree is not at the commit any more that it was at when something began.
func StillAt(ctx context.Context, root, commit string) error {
	now, err := Commit(ctx, root)
	if err == nil && now != commit {
		err = fmt.Errorf("the commit is %s, and was %s when it began", now, commit)
	}
	return err
}
