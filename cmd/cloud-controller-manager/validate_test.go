package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheControllerChecksAnInventoryBeforeItIsInstalled(t *testing.T) {
	home, err := os.ReadFile("../../examples/homelab/inventory.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text, want string
		err        error
	}{
		"the example":         {string(home), "valid: inventory home\n", nil},
		"a misspelt key":      {strings.Replace(string(home), "routers:", "routrs:", 1), "home.yaml:", errInventory},
		"nothing at all":      {"", "", errInventory},
		"what is no document": {"a: [", "home.yaml:", errInventory},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "home.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			cmd := newValidateCommand()
			cmd.SetOut(&out)
			cmd.SetArgs([]string{filepath.Dir(file)})
			if err := cmd.Execute(); !errors.Is(err, c.err) || !strings.Contains(out.String(), c.want) {
				t.Errorf("error %v, output\n%s", err, &out)
			}
		})
	}
}
