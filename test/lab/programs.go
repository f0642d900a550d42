package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/provider/installation"
	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab/netns"
	"plinth.dev/plinth/test/lab/supervisor"
)

const (
	// PlinthNamespace is where Plinth's service accounts and ConfigMaps are, as the overlay says.
	PlinthNamespace = "plinth-system"
	// InventoryConfigMap is the ConfigMap that ApplyInventory writes.
	InventoryConfigMap = "inventory"

	ccmAccount   = "plinth-cloud-controller-manager"
	agentAccount = "plinth-agent"
)

// BuildPlinth builds Plinth's three programs into the bin of the source tree.
func (l *Lab) BuildPlinth(ctx context.Context) error {
	if _, err := exec.LookPath("go"); errors.Is(err, exec.ErrNotFound) {
		return nil // those that are there will do
	}
	out, err := components.AsCaller(exec.CommandContext(ctx, "make", "--no-print-directory", "-C", l.record.Root, "build")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make build: %w\n%s", err, out)
	}
	return nil
}

// StartPlinth does what an operator would: grants the rights that deploy/
// asks for, applies an inventory, loads into each router what Plinth prints for
// it, and starts the programs. It returns when all Nodes are Ready.
func (l *Lab) StartPlinth(ctx context.Context, inventory ...string) error {
	if err := l.BuildPlinth(ctx); err != nil {
		return err
	}
	if err := l.GrantRights(ctx); err != nil {
		return err
	}
	if err := l.ApplyInventory(ctx, inventory...); err != nil {
		return err
	}
	if len(l.Topology.speakers()) > 0 {
		l.say("routers: loading what `plinth router-config` prints for each")
	}
	if err := l.ConfigureRouters(ctx, inventory...); err != nil {
		return err
	}
	l.say("Plinth: cloud-controller-manager, and an agent on each machine")
	if err := l.StartCCM(ctx); err != nil {
		return err
	}
	for _, m := range l.Topology.Machines() {
		if err := l.StartAgent(ctx, m.Name); err != nil {
			return err
		}
	}
	if err := l.WaitReady(ctx, 90*time.Second); err != nil {
		return fmt.Errorf("waiting for the Nodes: %w\n%s", err, l.logTail("ccm"))
	}
	return nil
}

// GrantRights creates the namespace, service accounts, RBAC rules and admission policies of
// deploy/overlays/homelab, with those of deploy/components/on-link where VIPs may be on a link, and
// nothing else of it.
func (l *Lab) GrantRights(ctx context.Context) error {
	folder := filepath.Join(l.record.Root, "deploy", "overlays", "homelab")
	if l.Topology.onLink() {
		var err error
		if folder, err = l.onLinkOverlay(); err != nil {
			return err
		}
	}
	rendered, err := l.Kubectl(ctx, "kustomize", folder)
	if err != nil {
		return err
	}
	var rights []string
	for _, doc := range strings.Split(rendered, "\n---\n") {
		for _, kind := range []string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
			"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
			if strings.Contains("\n"+doc+"\n", "\nkind: "+kind+"\n") {
				rights = append(rights, doc)
			}
		}
	}
	text := strings.ReplaceAll(strings.Join(rights, "\n---\n"), PlinthNamespace, l.installed())
	file := filepath.Join(l.Dir(), "pki", "rights.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	_, err = l.Kubectl(ctx, "apply", "--server-side", "-f", file)
	return err
}

// onLinkOverlay writes an overlay of deploy/overlays/homelab with the component on-link, and returns its folder.
func (l *Lab) onLinkOverlay() (string, error) {
	folder := filepath.Join(l.Dir(), "pki", "on-link")
	deploy, err := filepath.Rel(folder, filepath.Join(l.record.Root, "deploy")) // it takes no absolute path
	if err != nil {
		return "", err
	}
	overlay := fmt.Sprintf("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [%[1]s/overlays/homelab]\ncomponents: [%[1]s/components/on-link]\n", deploy)
	return folder, errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(overlay), 0o600))
}

func (l *Lab) installed() string { return cmp.Or(l.Installed, PlinthNamespace) }

// accountKubeconfig writes a kubeconfig with a fresh token of a service account,
// bound to an object as a kubelet binds it to a pod; nil: to none.
func (l *Lab) accountKubeconfig(ctx context.Context, account, file string, bound *authenticationv1.BoundObjectReference) error {
	return l.tokenKubeconfig(ctx, l.installed(), account, file, bound)
}

// AccountKubeconfig writes a kubeconfig of somebody else's service account, for a program on a real machine's management
// network, and returns its file.
func (l *Lab) AccountKubeconfig(ctx context.Context, namespace, account string) (string, error) {
	file := l.pki(namespace + "-" + account + ".conf")
	return file, l.tokenKubeconfig(ctx, namespace, account, file, nil)
}

func (l *Lab) tokenKubeconfig(ctx context.Context, namespace, account, file string, bound *authenticationv1.BoundObjectReference) error {
	day := int64(24 * 60 * 60)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day, BoundObjectRef: bound}}
	token, err := l.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token of service account %s: %w", account, err)
	}
	return l.writeKubeconfig(file, l.server(), account, token.Status.Token)
}

// ApplyInventory writes the documents, a key each, into a ConfigMap with the
// label that makes it an inventory.
func (l *Lab) ApplyInventory(ctx context.Context, documents ...string) error {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: InventoryConfigMap, Namespace: l.installed(),
			Labels: map[string]string{"plinth.dev/inventory": l.Topology.Name},
		},
		Data: map[string]string{},
	}
	for i, d := range documents {
		cm.Data[fmt.Sprintf("part%d.yaml", i)] = d
	}
	maps := l.Kube.CoreV1().ConfigMaps(l.installed())
	_, err := maps.Update(ctx, cm, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
	}
	return err
}

// ApplyInventoryWithLosses is ApplyInventory for documents that take away more than an edit may:
// it waits until they are refused, and lets them pass as a person would.
func (l *Lab) ApplyInventoryWithLosses(ctx context.Context, documents ...string) error {
	if err := l.ApplyInventory(ctx, documents...); err != nil {
		return err
	}
	maps := l.Kube.CoreV1().ConfigMaps(l.installed())
	var digest string
	err := Within(ctx, 20*time.Second, func(ctx context.Context) error {
		status, err := maps.Get(ctx, "plinth-inventory-status", metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, digest, _ = strings.Cut(status.Data["refused"], " ")
		if problems := status.Data["problems"]; digest == "" || !strings.Contains(problems, digest) {
			return fmt.Errorf("the edit is not refused for what it takes away; problems: %s", problems)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = netns.Output(ctx, l.Namespace(controlHost), filepath.Join(l.binaries.plinth, "plinth"), "allow", "--kubeconfig="+l.Kubeconfig(), digest)
	return err
}

// ConfigureRouters gives every router what `plinth router-config` prints for it.
func (l *Lab) ConfigureRouters(ctx context.Context, documents ...string) error {
	files, err := l.written(documents)
	if err != nil {
		return err
	}
	for _, r := range l.Topology.speakers() {
		config, err := l.RouterConfig(ctx, r, files...)
		if err != nil {
			return err
		}
		if err := l.ConfigureRouter(ctx, r.Name, config); err != nil {
			return err
		}
	}
	return nil
}

// written writes documents, a file each.
func (l *Lab) written(documents []string) (files []string, err error) {
	for i, d := range documents {
		file := filepath.Join(runDir(l.record.Name), fmt.Sprintf("inventory%d.yaml", i))
		files, err = append(files, file), errors.Join(err, os.WriteFile(file, []byte(d), 0o644))
	}
	return files, err
}

// Diff is what plinth says that an inventory would change if it were applied.
func (l *Lab) Diff(ctx context.Context, document string) (text string, err error) {
	files, err := l.written([]string{document})
	if err != nil {
		return "", err
	}
	text, _, err = l.plinth(ctx, "diff", "cluster", files[0])
	return text, err
}

// RouterConfig is what Plinth prints for a router.
func (l *Lab) RouterConfig(ctx context.Context, r Router, files ...string) (string, error) {
	command := []string{filepath.Join(l.binaries.plinth, "plinth"), "router-config", r.Name, "--os", r.OS}
	if _, err := os.Stat(l.passwordFile()); err == nil {
		command = append(command, "--password-file="+PasswordSecret+"/"+PasswordKey+"="+l.passwordFile())
	}
	return netns.Output(ctx, l.Namespace(controlHost), append(command, files...)...)
}

// The Secret that agents may read by the rules of deploy/base, and the key that
// SetPassword writes.
const (
	PasswordSecret = "bgp"
	PasswordKey    = "tor"
)

func (l *Lab) passwordFile() string { return filepath.Join(runDir(l.record.Name), "password") }

// SetPassword puts a BGP password where agents find it, and where RouterConfig does.
// Sessions have it once an inventory says so.
func (l *Lab) SetPassword(ctx context.Context, password string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: PasswordSecret, Namespace: l.installed()},
		StringData: map[string]string{PasswordKey: password},
	}
	secrets := l.Kube.CoreV1().Secrets(l.installed())
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	return errors.Join(err, os.WriteFile(l.passwordFile(), []byte(password), 0o600))
}

// ForgetPassword undoes SetPassword.
func (l *Lab) ForgetPassword(ctx context.Context) error {
	err := l.Kube.CoreV1().Secrets(l.installed()).Delete(ctx, PasswordSecret, metav1.DeleteOptions{})
	return errors.Join(err, os.Remove(l.passwordFile()))
}

// Status is what plinth says of how the datacenter is, and whether all is well.
func (l *Lab) Status(ctx context.Context) (text string, well bool, err error) {
	return l.plinth(ctx, "status")
}

// Ask reads what a command of plinth says, as JSON.
func (l *Lab) Ask(ctx context.Context, answer any, words ...string) error {
	text, _, err := l.plinth(ctx, append(words, "-o", "json")...)
	if err != nil {
		return fmt.Errorf("plinth %v: %w: %s", words, err, text)
	}
	return json.Unmarshal([]byte(text), answer)
}

// plinth runs plinth as admin, and returns what it says, and whether that is that all is well.
func (l *Lab) plinth(ctx context.Context, words ...string) (text string, well bool, err error) {
	command := append([]string{filepath.Join(l.binaries.plinth, "plinth")}, words...)
	text, err = netns.Output(ctx, l.Namespace(controlHost), append(command, "--kubeconfig="+l.Kubeconfig())...)
	const degraded = 1
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.ExitCode() == degraded {
		return text, false, nil
	}
	return text, err == nil, err
}

// Move moves what is installed in one namespace to another, as a person would, and returns what
// plinth says. Programs that are started afterwards are of the new one.
func (l *Lab) Move(ctx context.Context, from, to string) (said string, err error) {
	said, err = netns.Output(ctx, l.Namespace(controlHost), filepath.Join(l.binaries.plinth, "plinth"), "move", "--kubeconfig="+l.Kubeconfig(), "--namespace="+from, "--to="+to)
	if err != nil {
		return said, err
	}
	l.Installed = to
	return said, l.GrantRights(ctx)
}

// StartCCM starts plinth-cloud-controller-manager with its own service account. It comes back
// when it has ended, until it is stopped.
func (l *Lab) StartCCM(ctx context.Context) error {
	file := l.pki("ccm.conf")
	if err := l.accountKubeconfig(ctx, ccmAccount, file, nil); err != nil {
		return err
	}
	format := "text"
	if l.JSONLogs {
		format = "json"
	}
	return l.supervise(ctx, controlHost, supervisor.Program{Name: "ccm", Env: os.Environ(), Dir: l.Dir(), Command: []string{
		filepath.Join(l.binaries.plinth, "plinth-cloud-controller-manager"),
		"--kubeconfig=" + file, "--authentication-kubeconfig=" + file, "--authorization-kubeconfig=" + file,
		"--namespace=" + l.installed(), "--leader-elect-resource-namespace=" + l.installed(), "--cert-dir=" + filepath.Join(l.Dir(), "pki", "ccm"),
		"--leader-elect-retry-period=500ms", // whoever waits to lead looks often; a leader may stand still for 10 s, as everywhere
		"--v=2", "--logging-format=" + format,
	}})
}

// StopCCM sends the cloud-controller-manager a signal and waits for its end. It does not come back.
func (l *Lab) StopCCM(ctx context.Context, s syscall.Signal) error { return l.stop(ctx, "ccm", s) }

// RestartCCM kills the cloud-controller-manager and starts another. The lease of the one that was killed is ended
// for it: the next would wait 15 s for that, and no story is about it.
func (l *Lab) RestartCCM(ctx context.Context) error {
	if err := l.StopCCM(ctx, syscall.SIGKILL); err != nil {
		return err // one that may still run has its port
	}
	return errors.Join(l.endLease(ctx), l.StartCCM(ctx))
}

// endLease takes a leader's name off the controller's lease.
func (l *Lab) endLease(ctx context.Context) error {
	lease, err := installation.LeaseOf(ctx, l.Kube, l.installed())
	if err != nil {
		return err
	}
	_, err = l.Kube.CoordinationV1().Leases(l.installed()).Patch(ctx, lease, types.MergePatchType, []byte(`{"spec":{"holderIdentity":""}}`), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
