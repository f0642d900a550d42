package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"plinth.dev/plinth/golden"
	"plinth.dev/plinth/inventory/source"
)

//go:generate go test . -run TestExamples -update

const examples = "../../examples"

// exampleFolders are the folders with an inventory each.
func exampleFolders(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(examples, "*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no examples in %s: %v", examples, err)
	}
	return folders
}

func TestExamplesHaveNoProblem(t *testing.T) {
	for _, folder := range exampleFolders(t) {
		proposed, err := source.Read(folder)
		if err != nil {
			t.Fatal(err)
		}
		if _, problems := loaded(proposed); len(problems) > 0 {
			t.Errorf("%s:\n%v", folder, problems)
		}
	}
}

// A router side's file is named ROUTER.LANGUAGE.conf.
func TestExamplesHoldWhatRoutersAreTold(t *testing.T) {
	for _, folder := range exampleFolders(t) {
		files, err := filepath.Glob(filepath.Join(folder, "*.conf"))
		if err != nil || len(files) == 0 && hasRouters(t, folder) {
			t.Errorf("%s has no router side: %v", folder, err)
		}
		for _, file := range files {
			t.Run(file, func(t *testing.T) { sameAsPrinted(t, folder, file) })
		}
	}
}

// hasRouters reports whether an example has anybody to be told something by BGP.
func hasRouters(t *testing.T, folder string) bool {
	t.Helper()
	proposed, err := source.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	inv, _ := loaded(proposed)
	return len(inv.Routers) > 0
}

func sameAsPrinted(t *testing.T, folder, file string) {
	parts := strings.Split(filepath.Base(file), ".")
	if len(parts) != 3 {
		t.Fatalf("%s is not named ROUTER.LANGUAGE.conf", file)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"router-config", parts[0], "--os", parts[1], folder}, nil, &out, &errs); code != exitGood {
		t.Fatalf("exit code %d\n%s", code, &errs)
	}
	golden.Hold(t, file, out.Bytes())
}
