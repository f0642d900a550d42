package real

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"plinth.dev/plinth/test/components"
)

// Version is the version of the images that the guide builds, of the source tree.
const Version = "v0.1.0"

// programs are those that there are images of.
var programs = []string{"plinth-cloud-controller-manager", "plinth-agent"}

// archives are the files in which `make images` puts the images of a source tree.
func archives(source string) (files []string) {
	for _, name := range programs {
		files = append(files, filepath.Join(source, "bin", "images", name+".tar"))
	}
	return files
}

// MakeImages builds the images of a source tree, of some version, under the names that the guide gives them, and returns
// their archives.
func MakeImages(ctx context.Context, source, version string) (files []string, err error) {
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "images", "REGISTRY=registry.example.com/plinth", "VERSION="+version)
	cmd.Dir = source
	if out, err := components.AsCaller(cmd).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make images in %s: %w\n%s", source, err, out)
	}
	return archives(source), nil
}
