package machine

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"text/template"
)

// What the guide prints is what the lab's machines run.
func TestTheGuideHasTheMachinesOwnCNIConfiguration(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/guides/pod-networks.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), "```json\n"+cniConfig+"```\n") {
		t.Errorf("docs/guides/pod-networks.md does not have the template of the lab's machines:\n%s", cniConfig)
	}
}

// containerd fills the template in with one pod CIDR or with two.
func TestTheCNIConfigurationIsJSONForEveryNumberOfFamilies(t *testing.T) {
	for _, ranges := range [][]string{{"10.244.1.0/24"}, {"10.244.1.0/24", "fd00:244:0:1::/64"}} {
		var text strings.Builder
		values := struct{ PodCIDRRanges, Routes []string }{ranges, ranges}
		if err := template.Must(template.New("").Parse(cniConfig)).Execute(&text, values); err != nil {
			t.Fatal(err)
		}
		var config struct {
			Plugins []struct {
				IPAM struct{ Ranges [][]struct{ Subnet string } }
			}
		}
		if err := json.Unmarshal([]byte(text.String()), &config); err != nil {
			t.Fatalf("%v in\n%s", err, text.String())
		}
		have := config.Plugins[0].IPAM.Ranges
		if len(have) != len(ranges) {
			t.Fatalf("%d ranges of %v", len(have), ranges)
		}
		for i, want := range ranges {
			if have[i][0].Subnet != want {
				t.Errorf("range %d is %q, want %q", i, have[i][0].Subnet, want)
			}
		}
	}
}
