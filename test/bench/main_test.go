package bench

import (
	"os"
	"testing"

	"plinth.dev/plinth/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Main(m)) }
