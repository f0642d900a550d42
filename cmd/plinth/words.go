package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"plinth.dev/plinth/docs"
	"plinth.dev/plinth/inventory/document"
)

// explainName prints all that a name means: a field, the code of a problem, and what the
// reference pages say of it.
func explainName(out io.Writer, name string) error {
	name = bareCode(name)
	code, isCode := codeOf(name)
	if isCode {
		return explainCode(out, code)
	}
	if _, _, err := document.FieldAt(name); err == nil {
		return explainField(out, name)
	}
	words, fields := wordsNamed(name), sameFields(pathsEnding(name))
	for i, word := range words {
		separate(out, i)
		explainWord(out, word)
	}
	for i, paths := range fields {
		separate(out, len(words)+i)
		if err := explainField(out, paths...); err != nil {
			return err
		}
	}
	if len(words)+len(fields) == 0 {
		return exit{exitUsage, unknownName(name)}
	}
	return nil
}

func separate(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintln(w)
	}
}

// codeForm is a code as it stands in a problem or in a note of an import, or as a person writes it.
var codeForm = regexp.MustCompile(`^(?:(?:error|warning|note)?\[)?([PpIi][0-9]{4})\]?:?$`)

// bareCode returns the code in a printed text, or else the text.
func bareCode(name string) string {
	if m := codeForm.FindStringSubmatch(name); m != nil {
		return strings.ToUpper(m[1])
	}
	return name
}

// codeOf is the code that a name means: by its number, or by its name in words.
func codeOf(name string) (document.CodeDoc, bool) {
	for _, d := range document.CodeDocs() {
		if string(d.Code) == name || d.Name == name {
			return d, true
		}
	}
	return document.CodeDoc{}, false
}

// explainCode prints the meaning of a problem's code.
func explainCode(w io.Writer, d document.CodeDoc) error {
	_, err := fmt.Fprintf(w, "%s %s\n\n%s\n", d.Code, d.Name, wrapped(d.Doc, 80))
	return err
}

// explainWord prints a row of a page.
func explainWord(out io.Writer, word docs.Word) {
	fmt.Fprintf(out, "%s: %s\n\n", word.Name, cmp.Or(word.Kind, "name"))
	for _, fact := range word.Facts {
		fmt.Fprintln(out, wrapped(fact.Column+": "+fact.Text, 80))
	}
	if word.Text != "" {
		fmt.Fprintln(out, wrapped(word.Text, 80))
	}
	fmt.Fprintf(out, "\nmore: docs/%s, %q\n", word.Page, word.Section)
}

// asAbove is the meaning of a word that the page has already.
const asAbove = "As above."

// wordsNamed are the rows of a name, as it stands on a page or as it stands where it was
// printed: with a value, without the prefix of Plinth's labels, in another case.
func wordsNamed(name string) (out []docs.Word) {
	all := docs.Words()
	bare, _, _ := strings.Cut(name, "{") // the labels of a metric
	for _, spelled := range []string{name, bare, beforeValue(bare), sample.ReplaceAllString(bare, "")} {
		for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
			for _, w := range all {
				if w.Text != asAbove && (same(w.Name, spelled) || same(w.Name, "plinth.dev/"+spelled)) {
					out = append(out, w)
				}
			}
			if len(out) > 0 {
				return out
			}
		}
	}
	return nil
}

// sample matches the suffix that the name of a histogram's sample has after the histogram's own.
var sample = regexp.MustCompile(`_(bucket|sum|count)$`)

// beforeValue is a label or a taint without its value, or a reason without its message.
func beforeValue(s string) string {
	if i := strings.IndexAny(s, ":="); i > 0 {
		return s[:i]
	}
	return s
}

// pathsEnding are the fields whose paths end so: those that a whole path without spec names,
// or else all.
func pathsEnding(name string) (out []string) {
	key := strings.ToLower("." + strings.Trim(document.BarePath(name), "."))
	for _, path := range document.FieldPaths() {
		if strings.ToLower(path) == "spec"+key {
			return []string{path}
		}
		if strings.HasSuffix(strings.ToLower("."+path), key) {
			out = append(out, path)
		}
	}
	return out
}

// sameFields groups paths that lead to one field: a setting of sessions has several.
func sameFields(paths []string) (out [][]string) {
	seen := map[document.FieldDoc]int{}
	for _, path := range paths {
		field, _, _ := document.FieldAt(path)
		i, ok := seen[field]
		if !ok {
			i = len(out)
			seen[field], out = i, append(out, nil)
		}
		out[i] = append(out[i], path)
	}
	return out
}

// unknownName returns the error on a name that is not known, with the one that was probably meant.
func unknownName(name string) error {
	if first, _, _ := strings.Cut(document.BarePath(name), "."); slices.Contains(document.FieldPaths(), first) {
		_, _, err := document.FieldAt(name)
		return err
	}
	if kind, of, several := strings.Cut(name, "/"); several {
		switch kind {
		case "node", "nodes":
			return fmt.Errorf("%s: of a machine plinth explain machine/%s cluster says where its values come from, and plinth why node/%[2]s how its Node is", name, of)
		case "svc", "vip", "router":
			return fmt.Errorf("%s: plinth why %[1]s says how it is", name)
		}
	}
	err := fmt.Errorf("%s: Plinth prints no such name; there are fields of the inventory, codes of problems and of an import's notes, reasons, causes, metrics, labels, annotations and states", name)
	if near := document.Nearest(name, allNames()); near != "" {
		return fmt.Errorf("%w; did you mean %q?", err, near)
	}
	if strings.ToLower(name) == name && !strings.Contains(name, ".") { // as machines are called
		err = fmt.Errorf("%w; of a machine: plinth explain machine/%s cluster", err, name)
	}
	return err
}

// allNames returns the names that are explained, without codes, of which none is near another.
func allNames() (names []string) {
	for _, w := range docs.Words() {
		names = append(names, w.Name)
	}
	for _, path := range document.FieldPaths() {
		names = append(names, path, strings.TrimPrefix(path, "spec."), path[strings.LastIndex(path, ".")+1:])
	}
	for _, d := range document.CodeDocs() {
		names = append(names, d.Name)
	}
	return names
}
