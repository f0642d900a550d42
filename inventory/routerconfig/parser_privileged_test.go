//go:build privileged

package routerconfig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// parsers are the routers' own, by language. A file that is to be included is
// put into a minimal configuration.
var parsers = map[string]struct {
	command []string // the file's name is put after it
	around  string   // what stands before an included file
}{
	"frr":      {[]string{"vtysh", "-C", "-f"}, ""},
	"unifi":    {[]string{"vtysh", "-C", "-f"}, ""},
	"openbgpd": {[]string{"bgpd", "-n", "-f"}, "AS 65000\n"},
	"bird":     {[]string{"bird", "-p", "-c"}, "router id 192.0.2.1;\nprotocol device { }\nprotocol bfd { }\n"},
}

func TestRoutersReadTheGoldenFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*/*.conf")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]int{}
	for _, file := range files {
		parts := strings.Split(strings.TrimSuffix(filepath.Base(file), ".conf"), ".")
		standalone := parts[len(parts)-1] == "standalone"
		language := parts[len(parts)-1]
		if standalone {
			language = parts[len(parts)-2]
		}
		parser, ok := parsers[language]
		if !ok {
			continue
		}
		read[language]++
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !standalone {
				text = append([]byte(parser.around), text...)
			}
			parse(t, parser.command, text)
		})
	}
	for language := range parsers {
		if read[language] == 0 {
			t.Errorf("no file of %s was read", language)
		}
	}
}

func parse(t *testing.T, command []string, text []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "router.conf")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(command[0], append(command[1:], file)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "%") {
		t.Errorf("%v: %v\n%s\n%s", command, err, out, text)
	}
}
