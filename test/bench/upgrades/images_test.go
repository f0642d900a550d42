package upgrades

import (
	"fmt"
	"strings"
	"testing"
)

// allOf says which of the images, one a line, are not of a version; of none it is an error, too.
func allOf(images, version string) error {
	lines := strings.Fields(images)
	if len(lines) == 0 {
		return fmt.Errorf("no pod runs an image of version %s", version)
	}
	for _, image := range lines {
		if !strings.HasSuffix(image, ":"+version) {
			return fmt.Errorf("a pod runs %s, where all are to be of version %s:\n%s", image, version, images)
		}
	}
	return nil
}

func TestPodsOfAnotherVersionAreFound(t *testing.T) {
	for images, want := range map[string]string{
		"r/plinth-agent:v2\nr/plinth-ccm:v2\n": "",
		"r/plinth-agent:v2\nr/plinth-ccm:v1\n": "a pod runs r/plinth-ccm:v1",
		"":                                     "no pod runs",
	} {
		if err := allOf(images, "v2"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", images, err, want)
		}
	}
}
