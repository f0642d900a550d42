package buildinfo

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTheMetricSaysWhatTheProgramSays(t *testing.T) {
	Version, Revision = "v1.2.3", "0123abc"
	t.Cleanup(func() { Version, Revision = "dev", "" })
	want := fmt.Sprintf(`# HELP plinth_build_info 1; the labels tell which build of Plinth the program is.
# TYPE plinth_build_info gauge
plinth_build_info{goversion=%q,revision="0123abc",version="v1.2.3"} 1
`, runtime.Version())
	if err := testutil.CollectAndCompare(Metric{}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if f := Fields(); f["version"] != "v1.2.3" || f["revision"] != "0123abc" {
		t.Errorf("in JSON it says %v", f)
	}
}
