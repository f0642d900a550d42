package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// guide runs the commands of docs/guides/install.md, as they stand there, in a shell of
// somebody who is at the control plane with a clone of the source.
type guide struct {
	lab    *lab.Lab
	text   string
	folder string // the working folder: what a clone has of deploy/, with bin/ and an inventory
}

func newGuide(root string, l *lab.Lab) (*guide, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "guides", "install.md"))
	if err != nil {
		return nil, err
	}
	g := &guide{lab: l, text: string(text), folder: filepath.Join(l.Dir(), "operator")}
	bin := filepath.Join(g.folder, "bin")
	if err := errors.Join(os.RemoveAll(g.folder), os.MkdirAll(bin, 0o755)); err != nil {
		return nil, err
	}
	return g, errors.Join(
		os.CopyFS(filepath.Join(g.folder, "deploy"), os.DirFS(filepath.Join(root, "deploy"))),
		os.WriteFile(filepath.Join(g.folder, "inventory.yaml"), []byte(lab.Inventory(l.Topology)), 0o644),
		os.Symlink(filepath.Join(root, "bin", "plinth"), filepath.Join(bin, "plinth")),
		os.Symlink(filepath.Join(root, "bin", "plinth"), filepath.Join(bin, "kubectl-plinth")),
		os.Symlink(l.Program("kubectl"), filepath.Join(bin, "kubectl")),
		os.Symlink(l.Program("helm"), filepath.Join(bin, "helm")))
}

// section returns what stands below a heading, up to the next of its level or above.
func (g *guide) section(heading string) (string, error) {
	var found []string
	inside := false
	level := strings.Count(strings.Fields(heading)[0], "#")
	fence := false
	for line := range strings.Lines(g.text) {
		fence = fence != strings.HasPrefix(strings.TrimSpace(line), "```")
		if !fence && strings.HasPrefix(line, "#") {
			if inside && strings.Count(strings.Fields(line)[0], "#") <= level {
				break
			}
			inside = inside || strings.TrimSpace(line) == heading
		}
		if inside {
			found = append(found, line)
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("the guide has no section %q", heading)
	}
	return strings.Join(found, ""), nil
}

// commands returns the blocks of commands below a heading, those of its subsections not included.
func (g *guide) commands(heading string) ([]string, error) {
	section, err := g.section(heading)
	if err != nil {
		return nil, err
	}
	var blocks []string
	var block *strings.Builder
	for i, line := range strings.Split(section, "\n") {
		word := strings.TrimSpace(line)
		switch {
		case block == nil && i > 0 && strings.HasPrefix(line, "#"):
			return blocks, nil
		case block == nil && word == "```console":
			block = new(strings.Builder)
		case block != nil && word == "```":
			blocks, block = append(blocks, block.String()), nil
		case block != nil:
			fmt.Fprintln(block, strings.TrimSpace(line))
		}
	}
	return blocks, nil
}

// run runs commands; what differs between the guide's cluster and this one is replaced
// first, as pairs of old and new, each of which has to be there.
func (g *guide) run(ctx context.Context, commands string, replace ...string) (string, error) {
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(commands, replace[i]) {
			return "", fmt.Errorf("the guide's commands have no %q to replace:\n%s", replace[i], commands)
		}
		commands = strings.ReplaceAll(commands, replace[i], replace[i+1])
	}
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = g.folder
	cmd.Env = append(os.Environ(), "KUBECONFIG="+g.lab.Kubeconfig(), "PATH="+filepath.Join(g.folder, "bin")+":"+os.Getenv("PATH"))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := netns.Start(g.lab.Namespace(lab.ControlHost), cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return out.String(), fmt.Errorf("%w: the guide's commands:\n%s\nprinted:\n%s", err, commands, out.String())
	}
	return out.String(), nil
}

// install goes through the guide up to a datacenter that works. The images are built
// already, under the names that the guide gives them.
func (g *guide) install(ctx context.Context) error {
	check, err1 := g.commands("## 1. Check the inventory")
	tell, err2 := g.commands("## 2. Tell the router")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if _, err := g.run(ctx, check[0], "make build\n", ""); err != nil {
		return err
	}
	config, err := g.run(ctx, tell[0], "--os frr", "--os "+*routerOS)
	if err != nil {
		return err
	}
	if err := g.lab.ConfigureRouter(ctx, "gateway", config); err != nil {
		return err
	}
	if *install == "overlay" {
		err = g.installOverlay(ctx)
	} else {
		err = g.installChart(ctx)
	}
	if err != nil {
		return err
	}
	return plinthUp(ctx, g.lab)
}

func (g *guide) installOverlay(ctx context.Context) error {
	apply, err := g.commands("## 4. Apply")
	if err != nil {
		return err
	}
	for _, block := range apply {
		// The last command of the second block is a question that is answered once all is up.
		before, _, _ := strings.Cut(block, "kubectl plinth status")
		if _, err := g.run(ctx, before); err != nil {
			return err
		}
	}
	return nil
}

func (g *guide) installChart(ctx context.Context) error {
	blocks, err := g.commands("### Or with Helm")
	if err != nil {
		return err
	}
	// One control-plane node: the guide says what to set.
	_, err = g.run(ctx, blocks[0], "helm install plinth", "helm install plinth --set controller.replicas=1")
	return err
}
