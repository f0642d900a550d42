package story

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestALineThatIsNoJSONIsFound(t *testing.T) {
	const good = `{"ts":1,"msg":"started"}` + "\n"
	for _, c := range []struct{ agent, ccm, want string }{
		{good + good, good, ""},
		{good + "panic: nil map\n", good, "agent-w1.log: this line is no JSON object with a message: panic: nil map"},
		{good, `{"ts":1}` + "\n", "ccm.log: this line is no JSON object"},
		{good, "", "ccm.log is empty"},
	} {
		folder := t.TempDir()
		for name, text := range map[string]string{"agent-w1.log": c.agent, "ccm.log": c.ccm} {
			must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		}
		if err := jsonAlone(folder); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q and %q: %v, want %q", c.agent, c.ccm, err, c.want)
		}
	}
	if jsonAlone(t.TempDir()) == nil {
		t.Error("a folder without logs passes")
	}
}
