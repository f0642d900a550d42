package disk

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAnIDThatIsNoneIsNotKnown(t *testing.T) {
	for text, want := range map[string]string{"": "", "uninitialized\n": "", "0123ABCD\n": "0123abcd"} {
		file := filepath.Join(t.TempDir(), "id")
		if got := idIn(file); got != "" {
			t.Errorf("without a file: %q", got)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := idIn(file); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}
