package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version/verflag"
)

func TestTheVersionFlagAnswersOnlyWhenItIsAsked(t *testing.T) {
	errRan := errors.New("the controllers ran")
	for _, c := range []struct {
		args []string
		out  string
		runs bool
	}{
		{[]string{"--version"}, "manager version dev\n", false},
		{[]string{"--version=raw"}, "manager version dev\n", false},
		{nil, "", true},
		{[]string{"--version=false"}, "", true},
	} {
		cmd := &cobra.Command{Use: "manager", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return errRan }}
		verflag.AddFlags(cmd.Flags())
		reset := func() {
			if err := cmd.Flags().Set("version", "false"); err != nil { // it is the process's
				t.Fatal(err)
			}
		}
		answerVersion(cmd)
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetArgs(c.args)
		if c.args == nil {
			cmd.SetArgs([]string{})
		}
		if err := cmd.Execute(); errors.Is(err, errRan) != c.runs || out.String() != c.out {
			t.Errorf("%v: it says %q and ends with %v", c.args, out.String(), err)
		}
		reset()
	}
}
