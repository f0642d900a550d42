package components

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func build(ctx context.Context, source string, p program, version, file string, say func(string, ...any)) error {
	if err := AsCaller(exec.CommandContext(ctx, "mkdir", "-p", filepath.Dir(file))).Run(); err != nil {
		return fmt.Errorf("making %s: %w", filepath.Dir(file), err)
	}
	name, begun := filepath.Base(file), time.Now()
	say("building %s", name)
	done := make(chan struct{})
	defer close(done)
	go func() {
		tick := time.NewTicker(15 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				say("building %s: %s so far", name, time.Since(begun).Round(time.Second))
			}
		}
	}()
	// Without the version in it, clients cannot parse what a server says it is.
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + version
	// Two may build at once; each renames a finished file of its own.
	temporary := fmt.Sprintf("%s.%d", file, os.Getpid())
	defer os.Remove(temporary)
	if err := p.compile(ctx, source, flags, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

// compile writes the program to a file.
func (p program) compile(ctx context.Context, source, linker, file string) error {
	flags := []string{"-tags", p.tags, "-ldflags", linker, "-o", file, p.pkg}
	switch {
	case p.test:
		return goTool(ctx, source, nil, append([]string{"test", "-c", "-vet=off", "-trimpath"}, flags...)...)
	case p.cgo:
		return goTool(ctx, source, []string{"CGO_ENABLED=1"}, append([]string{"build", "-trimpath"}, flags...)...)
	}
	return GoBuild(ctx, source, flags...)
}

// GoBuild runs go build in a folder, for a static binary.
func GoBuild(ctx context.Context, folder string, args ...string) error {
	return goTool(ctx, folder, []string{"CGO_ENABLED=0"}, append([]string{"build", "-trimpath"}, args...)...)
}

// GoTest builds the tests of a package of a folder, without running them, into a static binary.
func GoTest(ctx context.Context, folder string, args ...string) error {
	return goTool(ctx, folder, []string{"CGO_ENABLED=0"}, append([]string{"test", "-c", "-vet=off", "-trimpath"}, args...)...)
}

func goTool(ctx context.Context, folder string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), env...)
	if out, err := AsCaller(cmd).CombinedOutput(); err != nil {
		return fmt.Errorf("go %s %s in %s: %w\n%s", args[0], args[len(args)-1], folder, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Shipped are the flags of go build that Plinth's programs are shipped with, besides
// those of GoBuild. See the Makefile.
var Shipped = []string{"-tags", "grpcnotrace", "-ldflags", "-s -w"}

// ProgramsVariable names the folder of Plinth's programs, where somebody has just built them of this tree.
const ProgramsVariable = "PLINTH_TEST_PROGRAMS"

// Plinths returns the file of one of Plinth's programs, by the name that it is installed under: the one that make has
// built, where ProgramsVariable says so, or else one that is built into a folder, as it is shipped. Where that fails, the
// error has what the compiler said.
func Plinths(ctx context.Context, name, folder string) (file string, err error) {
	if built := os.Getenv(ProgramsVariable); built != "" {
		file = filepath.Join(built, name)
		_, err := os.Stat(file)
		return file, err
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	if err := Own(folder); err != nil {
		return "", err
	}
	file = filepath.Join(folder, name)
	return file, GoBuild(ctx, root, slices.Concat(Shipped, []string{"-o", file, sources[name]})...)
}

// sources are the packages of Plinth's programs.
var sources = map[string]string{
	"plinth":                          "./cmd/plinth",
	"plinth-agent":                    "./cmd/node-agent",
	"plinth-cloud-controller-manager": "./cmd/cloud-controller-manager",
}

// AsCaller has a command run as the person who called sudo, so that no file in
// that person's caches and source tree belongs to root.
func AsCaller(cmd *exec.Cmd) *exec.Cmd {
	if uid, gid, ok := Caller(); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return cmd
}

// Own gives a folder to the person who called sudo, so that AsCaller can write to it.
func Own(folder string) error {
	if uid, gid, ok := Caller(); ok {
		return os.Chown(folder, uid, gid)
	}
	return nil
}

// Caller returns who called sudo, where somebody other than root did.
func Caller() (uid, gid int, ok bool) {
	uid, err1 := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, err2 := strconv.Atoi(os.Getenv("SUDO_GID"))
	return uid, gid, err1 == nil && err2 == nil && uid > 0 && os.Geteuid() == 0
}
