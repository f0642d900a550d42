package apiserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"plinth.dev/plinth/test/components"
)

const (
	// SeedVariable gives what stories draw at random from a seed; without it each run draws anew.
	SeedVariable = "PLINTH_TEST_SEED"
	// keepVariable, where it is not empty, has the seed of a story that fails become a case of it.
	keepVariable = "PLINTH_TEST_KEEP_SEEDS"
)

// Draw tells a story that draws what happens: once for each case, a seed with which it failed before, and once for the
// seed of this run. Each is a subtest that is called by its seed. The cases of a story are lines of the file
// testdata/seeds/STORY; make soak adds those that it finds.
func Draw(t *testing.T, story func(t *testing.T, seed uint64)) {
	t.Helper()
	file := filepath.Join("testdata", "seeds", t.Name())
	cases, err := readSeeds(file)
	if err != nil {
		t.Fatal(err)
	}
	now := rand.Uint64()
	if said := os.Getenv(SeedVariable); said != "" {
		if now, err = strconv.ParseUint(said, 10, 64); err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
	}
	done := map[uint64]bool{}
	for _, seed := range append(cases, now) {
		if done[seed] {
			continue
		}
		done[seed] = true
		good := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Logf("to see it again: %s=%d", SeedVariable, seed)
			story(t, seed)
		})
		if !good && os.Getenv(keepVariable) != "" {
			if err := keepSeed(file, cases, seed); err != nil {
				t.Error(err)
			}
		}
	}
}

func readSeeds(file string) (seeds []uint64, err error) {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		seed, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		seeds = append(seeds, seed)
	}
	return seeds, nil
}

// keepSeed adds a seed to the cases in a file, if it is not one of them. The file belongs to whoever called sudo.
func keepSeed(file string, cases []uint64, seed uint64) error {
	if slices.Contains(cases, seed) {
		return nil
	}
	folder := filepath.Dir(file)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var text strings.Builder
	for _, one := range append(cases, seed) {
		fmt.Fprintln(&text, one)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		return err
	}
	return errors.Join(components.Own(filepath.Dir(folder)), components.Own(folder), components.Own(file))
}
