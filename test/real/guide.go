package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// Options are what two clusters of real machines differ in.
type Options struct {
	Name      string   // of the lab
	Install   string   // how Plinth is installed: "helm" or "overlay"
	ProxyMode string   // of kube-proxy: "nftables" or "iptables"
	RouterOS  string   // what the router is: lab.FRR or lab.BIRD
	Images    []string // archives that machines import besides Plinth's
	IPv4Only  bool     // no IPv6 in the inventory
	OnLink    bool     // no router speaks BGP: VIPs are on the machines' subnet
	// OtherPods has the lab route pods, as a CNI does: the inventory has no podNetwork.
	OtherPods bool
	// Release is a folder with the files of a release. They are all that is at hand: no clone of the
	// source, and no machine has the images.
	Release string
}

// Start starts a lab of three real machines behind a router. They import the images that
// `make images` has made; Plinth does not run yet, see [Guide.Install].
func Start(ctx context.Context, o Options) (*Guide, error) {
	root, err := components.Root()
	if err != nil {
		return nil, err
	}
	t, err := o.topology(root)
	if err != nil {
		return nil, err
	}
	l, err := lab.Start(ctx, t, lab.Options{Name: o.Name, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	return newGuide(root, l, o)
}

// topology is that of the machines. Those without a release import what `make images` has made.
func (o Options) topology(root string) (lab.Topology, error) {
	t := lab.Homelab()
	t.Routers[0].OS = o.RouterOS
	if o.OnLink {
		t = lab.Home(3)
	}
	t.Real, t.ProxyMode, t.StaticPods = true, o.ProxyMode, o.OtherPods
	t.Images, t.IPv4Only = o.Images, o.IPv4Only
	if o.Release != "" {
		return t, nil
	}
	for _, archive := range archives(root) {
		if _, err := os.Stat(archive); err != nil {
			return t, fmt.Errorf("%w: `make images` makes it", err)
		}
		t.Images = append(t.Images, archive)
	}
	return t, nil
}

// Guide runs the commands of a page of docs/guides, as they stand there, in a shell of
// somebody who is at the control plane with a clone of the source, or with a release.
type Guide struct {
	Lab     *lab.Lab
	options Options
	root    string // of the source
	text    string
	folder  string // the working folder: what a clone has of deploy/, with bin/ and an inventory
}

// Folder is where the commands run.
func (g *Guide) Folder() string { return g.folder }

// Page is the same shell with another page of docs/guides.
func (g *Guide) Page(name string) (*Guide, error) {
	text, err := os.ReadFile(filepath.Join(g.root, "docs", "guides", name))
	if err != nil {
		return nil, err
	}
	other := *g
	other.text = string(text)
	return &other, nil
}

func newGuide(root string, l *lab.Lab, o Options) (*Guide, error) {
	g, err := (&Guide{Lab: l, options: o, root: root, folder: filepath.Join(l.Dir(), "operator")}).Page("install.md")
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(g.folder, "bin")
	if err := errors.Join(os.RemoveAll(g.folder), os.MkdirAll(bin, 0o755)); err != nil {
		return nil, err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(g.folder, "inventory.yaml"), []byte(lab.Inventory(l.Topology)), 0o644),
		os.Symlink(l.Program("kubectl"), filepath.Join(bin, "kubectl")),
		os.Symlink(l.Program("helm"), filepath.Join(bin, "helm")))
	if o.Release != "" {
		return g, errors.Join(err, os.CopyFS(g.folder, os.DirFS(o.Release)))
	}
	return g, errors.Join(err,
		os.CopyFS(filepath.Join(g.folder, "deploy"), os.DirFS(filepath.Join(root, "deploy"))),
		os.Symlink(filepath.Join(root, "bin", "plinth"), filepath.Join(bin, "plinth")),
		os.Symlink(filepath.Join(root, "bin", "plinth"), filepath.Join(bin, "kubectl-plinth")))
}

// section returns what stands below a heading, up to the next of its level or above.
func (g *Guide) section(heading string) (string, error) {
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

// Commands returns the blocks of commands below a heading, those of its subsections not included.
func (g *Guide) Commands(heading string) ([]string, error) {
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

// Run runs commands; what differs between the guide's cluster and this one is replaced
// first, as pairs of old and new, each of which has to be there.
func (g *Guide) Run(ctx context.Context, commands string, replace ...string) (string, error) {
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(commands, replace[i]) {
			return "", fmt.Errorf("the guide's commands have no %q to replace:\n%s", replace[i], commands)
		}
		commands = strings.ReplaceAll(commands, replace[i], replace[i+1])
	}
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = g.folder
	cmd.Env = append(os.Environ(), "KUBECONFIG="+g.Lab.Kubeconfig(), "PATH="+filepath.Join(g.folder, "bin")+":"+os.Getenv("PATH"))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := netns.Start(g.Lab.Namespace(lab.ControlHost), cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return out.String(), fmt.Errorf("%w: the guide's commands:\n%s\nprinted:\n%s", err, commands, out.String())
	}
	return out.String(), nil
}

// Install goes through the guide up to a datacenter that works. The images are built
// already, under the names that the guide gives them.
func (g *Guide) Install(ctx context.Context) error {
	err := g.Prepare(ctx)
	if err != nil {
		return err
	}
	if g.options.Install == "overlay" {
		err = g.installOverlay(ctx)
	} else {
		err = g.installChart(ctx)
	}
	if err != nil {
		return err
	}
	if err := PlinthUp(ctx, g.Lab); err != nil {
		return err
	}
	return g.noAgentEnded(ctx)
}

// Prepare goes through the guide up to a router that knows its side; Plinth is not installed yet.
func (g *Guide) Prepare(ctx context.Context) error {
	check, err1 := g.Commands("## 1. Check the inventory")
	tell, err2 := g.Commands("## 2. Tell the router")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if _, err := g.Run(ctx, check[0], "make build\n", ""); err != nil {
		return err
	}
	config, err := g.Run(ctx, tell[0], "--os frr", "--os "+g.options.RouterOS)
	if err != nil {
		return err
	}
	return g.Lab.ConfigureRouter(ctx, "gateway", config)
}

// noAgentEnded says which agent had to be started again: none has a reason to end.
func (g *Guide) noAgentEnded(ctx context.Context) error {
	pods, err := g.Lab.Kube.CoreV1().Pods(lab.PlinthNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=plinth-agent"})
	if err != nil {
		return err
	}
	var ended []error
	for _, p := range pods.Items {
		for _, c := range p.Status.ContainerStatuses {
			if last := c.LastTerminationState.Terminated; last != nil {
				log, _ := g.Run(ctx, "kubectl -n "+lab.PlinthNamespace+" logs --previous "+p.Name+" | tail -n 30")
				ended = append(ended, fmt.Errorf("the agent of %s ended with %d and was started again:\n%s", p.Spec.NodeName, last.ExitCode, log))
			}
		}
	}
	return errors.Join(ended...)
}

func (g *Guide) installOverlay(ctx context.Context) error {
	apply, err := g.Commands("## 4. Apply")
	if err != nil {
		return err
	}
	for _, block := range apply {
		// The last command of the second block is a question that is answered once all is up.
		before, _, _ := strings.Cut(block, "kubectl plinth status")
		if _, err := g.Run(ctx, before); err != nil {
			return err
		}
	}
	return nil
}

func (g *Guide) installChart(ctx context.Context) error {
	blocks, err := g.Commands("### Or with Helm")
	if err != nil {
		return err
	}
	_, err = g.Run(ctx, blocks[0])
	return err
}

// UpgradeTo has Helm install the chart of a source tree, with images of some version, or change to it; it returns once all
// pods are of it and every machine is in order.
func (g *Guide) UpgradeTo(ctx context.Context, source, version string) error {
	blocks, err := g.Commands("### Or with Helm")
	if err != nil {
		return err
	}
	tags := fmt.Sprintf(" --set controller.image.tag=%s --set agent.image.tag=%s\n", version, version)
	chart := filepath.Join(source, "deploy", "helm", "plinth")
	if _, err := g.Run(ctx, strings.TrimSpace(blocks[0])+tags, "helm install plinth deploy/helm/plinth", "helm upgrade --install plinth "+chart); err != nil {
		return err
	}
	for _, workload := range []string{"deployment/plinth-cloud-controller-manager", "daemonset/plinth-agent"} {
		if _, err := g.Run(ctx, "kubectl -n "+lab.PlinthNamespace+" rollout status --timeout=5m "+workload); err != nil {
			return err
		}
	}
	if err := PlinthUp(ctx, g.Lab); err != nil {
		return err
	}
	return g.noAgentEnded(ctx)
}

// PlinthUp waits until all of Plinth runs and every machine is in order.
func PlinthUp(ctx context.Context, l *lab.Lab) error {
	for _, name := range programs {
		if err := l.WaitPods(ctx, 2*time.Minute, lab.PlinthNamespace, "app.kubernetes.io/name="+name); err != nil {
			return err
		}
	}
	return errors.Join(l.WaitReady(ctx, 2*time.Minute), l.WaitFabric(ctx))
}
