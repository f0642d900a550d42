package main

import (
	"fmt"
	"io"
	"strings"

	"plinth.dev/plinth/buildinfo"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// writeGitHub prints annotations as GitHub's workflow commands.
func writeGitHub(out io.Writer, report report) error {
	for _, problem := range report.problems {
		text := problem.Message
		for _, more := range []struct{ before, text string }{{"got ", problem.Value}, {"accepted: ", problem.Accepted}, {"", problem.Help()}} {
			if more.text != "" {
				text += "; " + more.before + more.text
			}
		}
		at := report.edit.InFile(problem.Position())
		title := strings.TrimSpace(string(problem.Code) + " " + problem.Path)
		if _, err := fmt.Fprintf(out, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", problem.Severity, property(at.Source), max(at.Line, 1), max(at.Column, 1), property(title), data(text)); err != nil {
			return err
		}
	}
	return nil
}

// data and property escape what would end a workflow command, or a property of one.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(s))
}

// writeSARIF prints SARIF 2.1.0.
func writeSARIF(w io.Writer, report report) error {
	results := converted(report.problems, func(p inventory.Problem) any { return sarifResult(p, report.edit.InFile) })
	return printJSON(w, map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []any{map[string]any{
			"tool":       map[string]any{"driver": map[string]any{"name": "plinth", "version": buildinfo.Version, "rules": sarifRules(report.problems)}},
			"columnKind": "unicodeCodePoints",
			"results":    results,
		}},
	})
}

func sarifResult(problem inventory.Problem, inFile func(inventory.Position) inventory.Position) map[string]any {
	text := problem.Message
	if problem.Path != "" {
		text = problem.Path + " " + text
	}
	if help := problem.Help(); help != "" {
		text += "; " + help
	}
	out := map[string]any{
		"ruleId": string(problem.Code), "level": string(problem.Severity), "message": map[string]any{"text": text},
		"locations": []any{sarifLocation(inFile(problem.Position()))},
	}
	if len(problem.Related) > 0 {
		out["relatedLocations"] = converted(problem.Related, func(r inventory.Position) any { return sarifLocation(inFile(r)) })
	}
	return out
}

func sarifLocation(at inventory.Position) map[string]any {
	return map[string]any{"physicalLocation": map[string]any{
		"artifactLocation": map[string]any{"uri": at.Source},
		"region":           map[string]any{"startLine": max(at.Line, 1), "startColumn": max(at.Column, 1)},
	}}
}

// sarifRules describes the codes that occur.
func sarifRules(problems inventory.Problems) []any {
	used := map[inventory.Code]bool{}
	for _, p := range problems {
		used[p.Code] = true
	}
	rules := make([]any, 0, len(used))
	for _, d := range document.CodeDocs() {
		if used[d.Code] {
			rules = append(rules, map[string]any{"id": string(d.Code), "name": d.Name, "shortDescription": map[string]any{"text": d.Doc}})
		}
	}
	return rules
}
