package netns

import (
	"os"
	"runtime"
	"testing"
)

// A process that is started from the first thread, and every look at
// /proc/<pid>/ns, would else be in a namespace for ever.
func TestTheFirstThreadNeverEntersANamespace(t *testing.T) {
	const name = "plt-netns-test"
	if err := Add(name); err != nil {
		t.Fatal(err)
	}
	defer Delete(name)
	for range 50 {
		for range runtime.GOMAXPROCS(0) + 1 {
			if err := Do(name, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		pids, err := Pids(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if pid == os.Getpid() {
				t.Fatal("the first thread of this process is in the namespace")
			}
		}
	}
}
