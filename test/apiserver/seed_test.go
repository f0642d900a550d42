package apiserver

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAStoryIsToldForItsCasesAndForTheSeedOfTheRun(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(SeedVariable, "7")
	file := filepath.Join("testdata", "seeds", t.Name())
	for _, seed := range []uint64{3, 5, 3} {
		cases, err := readSeeds(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := keepSeed(file, cases, seed); err != nil {
			t.Fatal(err)
		}
	}
	var told []uint64
	Draw(t, func(_ *testing.T, seed uint64) { told = append(told, seed) })
	if want := []uint64{3, 5, 7}; !slices.Equal(told, want) {
		t.Errorf("told for %v, want %v", told, want)
	}
}

func TestAFileOfCasesThatIsNoneIsNoStoryWithoutCases(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seeds")
	if err := os.WriteFile(file, []byte("3\nfive\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if seeds, err := readSeeds(file); err == nil {
		t.Errorf("read %v", seeds)
	}
}
