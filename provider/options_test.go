package provider

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestReferenceNamesEveryFlagOfPlinthsOwn(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/cloud-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("own", pflag.ContinueOnError)
	new(Options).AddFlags(flags)
	if !flags.HasFlags() {
		t.Fatal("no flags were found")
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(string(page), "`--"+f.Name+"`") {
			t.Errorf("docs/reference/cloud-provider.md does not name --%s", f.Name)
		}
	})
}
