// The program vet is what `make lint` hands to `go vet` besides its own checks: errors are wrapped
// and asked by kind, and a switch over constants names each of them or has a default.
package main

import (
	"github.com/nishanths/exhaustive/passes/exhaustive"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	set(exhaustive.Analyzer, "d", "true")
	set(exhaustive.Analyzer, "typeignore", `^reflect\.Kind$`)
	unitchecker.Main(errorlint.NewAnalyzer(), exhaustive.Analyzer)
}

// set changes an option. With d, a default stands for all constants that are not named.
func set(a *analysis.Analyzer, option, value string) {
	if err := a.Flags.Set(option, value); err != nil {
		panic(err) // the pinned version has no such option
	}
}
